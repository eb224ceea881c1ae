package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// gateway is an S3 store on a folder. Metadata lie in a folder beside it, so that a file system without extended attributes will do.
type gateway struct {
	address string
	cancel  context.CancelFunc
	done    chan error
}

// startGateway returns when the store takes connections.
func startGateway(ctx context.Context, f folders) (*gateway, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	attributes, err := meta.NewSideCar(f.attributes)
	if err != nil {
		return nil, fmt.Errorf("s3 store: %w", err)
	}
	backend, err := posix.New(f.buckets, attributes, posix.PosixOpts{SideCarDir: f.attributes})
	if err != nil {
		return nil, fmt.Errorf("s3 store: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends after Queen, which still writes while it stops
	g := &gateway{address: address, cancel: cancel, done: make(chan error, 1)}
	go func() {
		g.done <- embedgw.RunVersityGW(run, backend, &embedgw.Config{
			RootUserAccess: "queen", RootUserSecret: "queen-secret-key", Ports: []string{address},
			MaxConnections: 200, MaxRequests: 200, MultipartMaxParts: 10000, Quiet: true, KeepAlive: true,
		})
	}()
	return g, g.wait(ctx)
}

func (g *gateway) wait(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", g.address); err == nil {
			return c.Close()
		}
		select {
		case err := <-g.done:
			return fmt.Errorf("s3 store ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("s3 store did not start: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (g *gateway) stop() error {
	g.cancel()
	select {
	case err := <-g.done:
		return err
	case <-time.After(5 * time.Second):
		return nil // it waits for connections that nobody uses any more; the process ends now anyway
	}
}
