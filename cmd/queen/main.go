// Command queen is the broker and its S3 sink, and the tools to look at a lake.
//
// Without an argument it serves, from the environment. It knows arguments, signals and exit codes and nothing else: package node
// is what runs, package config reads the settings, package lake reads lakes.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"queen/config"
	"queen/node"
)

// Exit codes, those of sysexits.h where one fits.
const (
	exitOK     = 0
	exitFailed = 1  // what was asked for did not work, or an audit found faults
	exitUsage  = 64 // EX_USAGE
	exitConfig = config.ExitCode
)

const usage = `queen: a message broker with an exactly-once S3 sink

  queen                                  serve, from the environment (see: queen settings)
  queen settings [--markdown]            every setting: name, default, range, what it is
  queen lake ls [flags] TARGET           the windows of a lake
  queen lake cat [flags] TARGET          the records of a lake, as JSON lines, whatever their compression
  queen lake stats [flags] TARGET        windows, records, bytes, gaps, losses and lag of each queue
  queen lake ddl --for ENGINE TARGET     statements that make each queue a view or table: athena, clickhouse, duckdb, spark, trino
  queen lake verify [flags] TARGET       audit a lake; exit code 1 when anything is not as it must be
  queen version
  queen help

TARGET is s3://BUCKET[/PREFIX], reached with QUEEN_S3_ENDPOINT, _REGION, _ACCESS_KEY, _SECRET_KEY and _PATH_STYLE, or a folder that
holds what the bucket holds. Flags:

  --prefix P       root of the object keys (default: QUEEN_S3_PREFIX, else queen)
  --queue Q        only this queue
  --align none     the lake was written with QUEEN_S3_ALIGN=none (verify)
  --broker URL     compare every record with the log of this broker (verify)

Exit codes: 0 done, 1 failed or faults found, 64 wrong arguments, 78 a setting is missing or wrong.
`

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(args, environ []string, out, errs io.Writer) int {
	if len(args) == 0 {
		return serve(environ, errs)
	}
	if slices.ContainsFunc(args, func(a string) bool { return a == "--help" || a == "-h" }) {
		fmt.Fprint(out, usage)
		return exitOK
	}
	switch args[0] {
	case "lake":
		return lakeCommand(args[1:], environ, out, errs)
	case "settings":
		return settings(args[1:], out, errs)
	case "version", "--version", "-v":
		fmt.Fprintln(out, "queen "+version())
		return exitOK
	case "help":
		fmt.Fprint(out, usage)
		return exitOK
	}
	return misused(errs, "no command "+args[0])
}

// misused says what is wrong with the arguments, and how they go.
func misused(errs io.Writer, why string) int {
	fmt.Fprintf(errs, "queen: %s\n\n%s", why, usage)
	return exitUsage
}

func settings(args []string, out, errs io.Writer) int {
	switch {
	case len(args) == 0:
		fmt.Fprint(out, config.Table())
	case len(args) == 1 && args[0] == "--markdown":
		fmt.Fprint(out, config.Markdown())
	default:
		return misused(errs, "settings takes --markdown and nothing else")
	}
	return exitOK
}

// version is the version, with the revision it was built from where the build knows it.
func version() string {
	text := node.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				text += " (" + s.Value[:12] + ")"
			}
		}
	}
	return text
}
