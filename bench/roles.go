package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"time"

	"queen/bench/discard"
	"queen/bench/fill"
	"queen/bench/load"
	"queen/bench/measure"
	"queen/bench/roofline"
	"queen/config"
	"queen/internal/logline"
	"queen/node"
	"queen/upload"
)

// roles are what this program is when a measurement starts it; each prints one JSON value at its end, but for the two servers.
func roles() map[string]func(ctx context.Context, f *flag.FlagSet, args []string) error {
	return map[string]func(context.Context, *flag.FlagSet, []string) error{
		"fill": asFill, "load": asLoad, "roofline": asRoofline, "discard": asDiscard, "serve": asServe,
	}
}

// asRole runs a role until it is done, a signal comes, or the measurement that started it is gone.
func asRole(ctx context.Context, name string, role func(context.Context, *flag.FlagSet, []string) error, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for range tick.C {
			if os.Getppid() != parent {
				cancel()
				return
			}
		}
	}()
	return role(ctx, flag.NewFlagSet(name, flag.ContinueOnError), args)
}

func printed(v any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}

func asFill(ctx context.Context, f *flag.FlagSet, args []string) error {
	var s fill.Shape
	f.StringVar(&s.Dir, "dir", "", "data folder")
	f.Int64Var(&s.Records, "records", 0, "records in all")
	f.IntVar(&s.Append, "append", 1, "records an append")
	f.IntVar(&s.Partitions, "partitions", 1, "partitions")
	f.IntVar(&s.Payload, "payload", 300, "bytes of a payload")
	f.IntVar(&s.Queues, "queues", 0, "instead: so many queues with a record each")
	if err := f.Parse(args); err != nil {
		return err
	}
	return printed(struct{}{}, fill.Make(ctx, s))
}

func asLoad(ctx context.Context, f *flag.FlagSet, args []string) error {
	var o load.Options
	f.StringVar(&o.Address, "address", "", "host:port of the broker")
	f.IntVar(&o.Pid, "pid", 0, "process id of the broker")
	f.IntVar(&o.Connections, "connections", 1, "")
	f.IntVar(&o.Batch, "batch", 1, "messages a push")
	f.IntVar(&o.Spread, "spread", 1, "partitions a push")
	f.IntVar(&o.Partitions, "partitions", 1, "partitions in all")
	f.IntVar(&o.Payload, "payload", 256, "bytes of a payload")
	f.IntVar(&o.Rate, "rate", 0, "messages a second; 0 = as many as are answered")
	f.DurationVar(&o.Warm, "warm", 0, "")
	f.DurationVar(&o.Duration, "duration", time.Second, "")
	f.Uint64Var(&o.Run, "run", 0, "")
	f.StringVar(&o.Queue, "queue", load.Queue, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := load.Run(ctx, o)
	return printed(r, err)
}

func asRoofline(ctx context.Context, f *flag.FlagSet, args []string) error {
	dir := f.String("dir", "", "data folder")
	list := f.String("manifests", "", "file with the manifests of the backfill")
	endpoint := f.String("endpoint", "", "the discarding store")
	s := roofline.Settings{Format: "jsonl", Compression: "zstd", Prefix: "roofline"}
	f.StringVar(&s.Format, "format", s.Format, "of the objects: jsonl or parquet, with zstd")
	f.Int64Var(&s.Threshold, "threshold", 64<<20, "bytes up to which an object goes up in one PUT")
	f.IntVar(&s.Readers, "readers", 4, "QUEEN_S3_FETCH_CONCURRENCY")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.Client = upload.ClientOptions{Endpoint: *endpoint, Region: "us-east-1", Bucket: "discard", AccessKey: "bench", SecretKey: "bench-secret", PathStyle: true}
	text, err := os.ReadFile(*list)
	if err != nil {
		return err
	}
	var manifests []*upload.Manifest
	if err := json.Unmarshal(text, &manifests); err != nil {
		return err
	}
	windows, err := roofline.Load(ctx, *dir, manifests)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the folder is closed: what it took must not be in what follows
	var c measure.Ceiling
	if c.Send, err = roofline.Send(ctx, windows, s); err != nil {
		return err
	}
	c.Bare, err = roofline.Compress(ctx, windows, s)
	return printed(c, err)
}

func asDiscard(ctx context.Context, f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &discard.Server{}, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Println("listening", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startProfile takes a profile into a new file, which is complete when the profile is stopped and open until the program ends.
func startProfile(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(out)
}

// goroutinesEvery is how often goroutines are counted, which costs nothing.
const goroutinesEvery = 5 * time.Millisecond

// asServe is the broker inside this program: the same node from the same settings, with a processor profile between SIGUSR1 and SIGUSR2. At
// its end it says how many goroutines it had at most.
func asServe(ctx context.Context, f *flag.FlagSet, args []string) error {
	file := f.String("profile", "", "where the profile goes; it is made when the first is taken")
	if err := f.Parse(args); err != nil {
		return err
	}
	c, err := config.FromEnv(os.Environ())
	if err != nil {
		return err
	}
	fatal := make(chan error, 1)
	n, err := node.New(node.Options{Config: c, Now: time.Now, Log: logline.New(os.Stderr, c.LogJSON, time.Now), Abort: runtime.Goexit, Fatal: func(err error) {
		select {
		case fatal <- err:
		default:
		}
	}})
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := n.Open(ctx); err != nil {
		return err
	}
	most := 0
	defer func() { fmt.Printf("%s%d\n", measure.LineGoroutines, most) }()
	look := time.NewTicker(goroutinesEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			most = max(most, runtime.NumGoroutine())
		case s := <-signals:
			if s == syscall.SIGUSR1 {
				err = startProfile(*file)
			} else {
				pprof.StopCPUProfile()
			}
		case err = <-fatal:
		case <-ctx.Done():
			pprof.StopCPUProfile() // does nothing when none is taken
			return n.Close(context.Background())
		}
		if err != nil {
			return errors.Join(err, n.Close(context.Background()))
		}
	}
}
