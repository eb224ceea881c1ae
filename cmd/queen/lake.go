package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"queen/config"
	"queen/lake"
	"queen/upload"
)

// lakeArgs are the arguments of queen lake.
type lakeArgs struct {
	verb, target                 string
	prefix, queue, align, broker string
	engine                       string // of ddl
}

// parseLake reads flags before and after the target.
func parseLake(args []string) (lakeArgs, error) {
	var a lakeArgs
	if len(args) == 0 || !slices.Contains([]string{"ls", "cat", "stats", "ddl", "verify"}, args[0]) {
		return a, errors.New("lake takes ls, cat, stats, ddl or verify")
	}
	a.verb = args[0]
	flags := flag.NewFlagSet("lake", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.prefix, "prefix", "", "")
	flags.StringVar(&a.queue, "queue", "", "")
	if a.verb == "ddl" {
		flags.StringVar(&a.engine, "for", "", "")
	}
	if a.verb == "verify" {
		flags.StringVar(&a.align, "align", "", "")
		flags.StringVar(&a.broker, "broker", "", "")
	}
	for rest := args[1:]; ; rest = flags.Args()[1:] {
		if err := flags.Parse(rest); err != nil {
			return a, err
		}
		if flags.NArg() == 0 {
			break
		}
		if a.target != "" {
			return a, errors.New("one TARGET, not two: " + flags.Arg(0))
		}
		a.target = flags.Arg(0)
	}
	switch {
	case a.target == "":
		return a, errors.New("lake " + a.verb + " needs a TARGET")
	case a.verb == "ddl" && !slices.Contains(lake.Engines(), a.engine):
		return a, errors.New("lake ddl takes --for " + strings.Join(lake.Engines(), ", "))
	case !slices.Contains([]string{"", "hour", "day", "none"}, a.align):
		return a, errors.New("--align takes hour, day or none")
	}
	if a.align != string(lake.AlignNone) {
		a.align = string(lake.AlignByPath) // hour and day are seen from the keys
	}
	return a, nil
}

func lakeCommand(args, environ []string, out, errs io.Writer) int {
	a, err := parseLake(args)
	if err != nil {
		return misused(errs, err.Error())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, options, place, err := a.open(environ)
	if err != nil {
		fmt.Fprintf(errs, "queen: %v\n", err)
		return exitConfig
	}
	var summary lake.Summary
	said := out // where the last line goes
	switch a.verb {
	case "ls":
		summary, err = lake.List(ctx, store, options, out)
	case "cat":
		said = errs // standard output holds records and nothing else
		summary, err = lake.Cat(ctx, store, options, out)
	case "stats":
		summary, err = lake.Stats(ctx, store, options, time.Now(), out)
	case "ddl":
		said = errs
		summary, err = lake.DDL(ctx, store, options, a.engine, place, out)
	default:
		summary, err = lake.Verify(ctx, store, options, func(f lake.Fault) { fmt.Fprintln(out, f) })
	}
	switch {
	case err != nil:
		fmt.Fprintf(errs, "queen: %v\n", err)
		return exitFailed
	case summary.Queues == 0 && options.Queue != "":
		fmt.Fprintf(errs, "queen: no queue %q under %s/ in %s\n", options.Queue, options.Prefix, a.target)
		return exitFailed
	case summary.Queues == 0:
		fmt.Fprintf(errs, "queen: no lake under %s/ in %s\n", options.Prefix, a.target)
		return exitFailed
	case summary.Faults > 0:
		fmt.Fprintf(said, "FAULTS: %d in %s\n", summary.Faults, summary)
		return exitFailed
	}
	fmt.Fprintf(said, "ok: %s\n", summary)
	return exitOK
}

// open finds the store that the target names. A folder needs no settings; a bucket takes its own from the environment.
func (a *lakeArgs) open(environ []string) (lake.Store, lake.Options, lake.Place, error) {
	o := lake.Options{Prefix: a.prefix, Queue: a.queue, Align: lake.Align(a.align)}
	if a.broker != "" {
		o.Log = lake.HTTPLog{URL: a.broker, Client: &http.Client{Timeout: time.Minute}}
	}
	bucket, prefix, remote := strings.Cut(strings.TrimPrefix(a.target, "s3://"), "/")
	remote = strings.HasPrefix(a.target, "s3://")
	// What the arguments say comes first: of two equal names in an environment, the first counts.
	env := []string{"QUEEN_S3_EMBEDDED=true", "QUEEN_S3_QUEUES=*", "QUEEN_S3_CRASH_AT=never", "QUEEN_S3_PARTITIONS="}
	if p := strings.Trim(prefix, "/"); remote && p != "" && a.prefix == "" {
		env = append(env, "QUEEN_S3_PREFIX="+p)
	} else if a.prefix != "" {
		env = append(env, "QUEEN_S3_PREFIX="+a.prefix)
	}
	if remote {
		env = append(env, "QUEEN_S3_BUCKET="+bucket)
	} else {
		env = append(env, "QUEEN_S3_BUCKET=folder", "QUEEN_S3_ENDPOINT=http://localhost", "QUEEN_S3_REGION=none", "QUEEN_S3_ACCESS_KEY=none",
			"QUEEN_S3_SECRET_KEY=none")
	}
	c, err := config.FromEnv(append(env, environ...))
	if err != nil {
		var bad *config.Error
		if errors.As(err, &bad) {
			return nil, o, lake.Place{}, errors.New(bad.Message)
		}
		return nil, o, lake.Place{}, err
	}
	o.Prefix = c.Sink.Prefix
	if !remote {
		folder, err := filepath.Abs(a.target)
		if err != nil {
			return nil, o, lake.Place{}, err
		}
		return lake.Folder(a.target), o, lake.Place{Folder: folder}, nil
	}
	client, err := upload.New(upload.ClientOptions{Endpoint: c.Sink.Endpoint, Region: c.Sink.Region, Bucket: c.Sink.Bucket,
		AccessKey: c.Sink.AccessKey, SecretKey: upload.Secret(c.Sink.SecretKey.Reveal()),
		SessionToken: upload.Secret(c.Sink.SessionToken.Reveal()), Ambient: c.Sink.Ambient, PathStyle: c.Sink.PathStyle})
	if err != nil {
		return nil, o, lake.Place{}, fmt.Errorf("%s: %w", a.target, err)
	}
	return lake.Bucket{Client: client}, o, lake.Place{Bucket: bucket, Endpoint: c.Sink.Endpoint, Region: c.Sink.Region}, nil
}
