// Command demo is Queen and an S3 store in one process: it pushes three records, waits until they are in the bucket, and shows what
// lies there. Once it is built it needs nothing installed and no network; everything it writes is in one folder, which it names.
//
// The store is versitygw on a folder, so that each object is a plain file. It is a module of its own because the broker must not
// link a store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"queen/config"
	"queen/internal/logline"
	"queen/lake"
	"queen/node"
)

// patience bounds the whole tour. The window of the demo is 10 s; the rest is guard, discovery and upload.
const patience = 60 * time.Second

const bucket = "lake"

func main() {
	dir := flag.String("dir", "", "folder for the data and the lake (default: a new one in the system's temporary folder)")
	goOn := flag.Bool("keep", false, "go on with a trickle of orders until told to end")
	verbose := flag.Bool("v", false, "show the log lines of broker and sink")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := os.Stdout
	if quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stdout = quiet // the store prints to it as it starts
	}
	if err := tour(ctx, *dir, *verbose, *goOn, out); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// folders are where the demo keeps its things, all absolute: the store changes the working directory of the process.
type folders struct{ root, data, buckets, attributes string }

func makeFolders(dir string) (folders, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "queen-demo-")
	} else {
		dir, err = filepath.Abs(dir)
	}
	f := folders{dir, filepath.Join(dir, "queen-data"), filepath.Join(dir, "s3"), filepath.Join(dir, "attributes")}
	for _, d := range []string{filepath.Join(f.buckets, bucket), f.attributes} {
		err = errors.Join(err, os.MkdirAll(d, 0o755))
	}
	return f, err
}

// tour does all of it, in the order in which a newcomer would. With goOn it ends when ctx does.
func tour(whole context.Context, dir string, verbose, goOn bool, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(whole, patience)
	defer cancel()
	f, err := makeFolders(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Everything of this demo is in %s\n\n", f.root)
	g, err := startGateway(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()

	env := settings(g.address, f)
	fmt.Fprintln(out, "An S3 store listens on http://"+g.address+". Queen starts with:")
	for _, line := range env {
		fmt.Fprintln(out, "    "+line)
	}
	logs := io.Writer(io.Discard)
	if verbose {
		logs = os.Stderr
	}
	n, err := startQueen(ctx, env, logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(out, "\nQueen listens on %s. Three records for two partitions of the queue orders:\n", n.URL())
	if err := push(ctx, n.URL(), out); err != nil {
		return err
	}
	if err := waitForWindows(ctx, n.URL(), out); err != nil {
		return err
	}
	if err := show(f, out); err != nil {
		return err
	}
	if err := audit(ctx, f, n.URL(), out); err != nil || !goOn {
		return err
	}
	return keep(whole, n.URL(), out)
}

// settings are the environment that a Queen of one's own would get.
func settings(store string, f folders) []string {
	return []string{
		"PORT=0", "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_RAFT_DIR=" + f.data,
		"QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=orders", "QUEEN_S3_ENDPOINT=http://" + store, "QUEEN_S3_REGION=us-east-1",
		"QUEEN_S3_PATH_STYLE=true", "QUEEN_S3_BUCKET=" + bucket, "QUEEN_S3_ACCESS_KEY=queen", "QUEEN_S3_SECRET_KEY=queen-secret-key",
		"QUEEN_S3_START=earliest", "QUEEN_S3_MAX_WINDOW_MS=10000", "QUEEN_S3_SAFE_GUARD_MS=1000", "QUEEN_S3_DISCOVERY_INTERVAL_MS=500",
	}
}

func startQueen(ctx context.Context, env []string, logs io.Writer) (*node.Node, error) {
	c, err := config.FromEnv(env)
	if err != nil {
		return nil, err
	}
	n, err := node.New(node.Options{Config: c, Now: time.Now, Log: logline.New(logs, false, time.Now), Fatal: func(err error) {
		fmt.Fprintln(os.Stderr, "demo: queen cannot go on:", err)
		os.Exit(1)
	}})
	if err != nil {
		return nil, err
	}
	return n, n.Open(ctx)
}

// audit reads the lake back by rules of its own and compares every record with the broker's log.
func audit(ctx context.Context, f folders, broker string, out io.Writer) error {
	o := lake.Options{Prefix: "queen", Log: lake.HTTPLog{URL: broker, Client: client()}}
	summary, err := lake.Verify(ctx, lake.Folder(filepath.Join(f.buckets, bucket)), o, func(fault lake.Fault) { fmt.Fprintln(out, fault) })
	if err != nil {
		return err
	}
	if summary.Faults > 0 || summary.Records != int64(len(records())) {
		return fmt.Errorf("the lake is not what it should be: %s", summary)
	}
	fmt.Fprintf(out, "\nqueen lake verify --broker: ok: %s\n", summary)
	return nil
}

// freeAddress finds a port on the loopback that nobody listens on right now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
