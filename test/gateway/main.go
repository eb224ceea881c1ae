// Command gateway is a real S3 server (versitygw on a folder) for the suites in this module. It is a process of its own because the
// gateway changes the working directory of its process and allows one instance in it.
//
//	gateway ROOT ADDR ACCESS SECRET BUCKET...
//
// Objects are plain files under ROOT/<bucket>/<key>, so any reader opens them directly. It prints "ready" and then serves until it is
// told to end.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 5 {
		return fmt.Errorf("usage: gateway ROOT ADDR ACCESS SECRET BUCKET...")
	}
	root, err := filepath.Abs(args[0]) // before posix.New changes the working directory
	if err != nil {
		return err
	}
	data, sidecar := filepath.Join(root, "buckets"), filepath.Join(root, "attributes")
	for _, dir := range append([]string{sidecar}, buckets(data, args[4:])...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	store, err := meta.NewSideCar(sidecar)
	if err != nil {
		return err
	}
	be, err := posix.New(data, store, posix.PosixOpts{SideCarDir: sidecar})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go announce(ctx, args[1])
	return embedgw.RunVersityGW(ctx, be, &embedgw.Config{
		RootUserAccess: args[2], RootUserSecret: args[3], Ports: []string{args[1]},
		MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10000, Quiet: true, KeepAlive: true,
	})
}

func buckets(data string, names []string) []string {
	dirs := make([]string, len(names))
	for i, n := range names {
		dirs[i] = filepath.Join(data, n)
	}
	return dirs
}

// announce says "ready" once the port takes a connection.
func announce(ctx context.Context, addr string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			fmt.Println("ready")
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
