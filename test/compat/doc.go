// Package compat asks the programs that people open a lake with whether they read what we wrote: DuckDB, ClickHouse (chdb), Polars, pandas,
// the zstd command, and zstandard and gzip of Python. It is a suite of its own because they are heavy: `make compat` installs them.
//
// compat_test.go makes the lakes with a real broker and a real S3 gateway; read.py reads them and compares.
package compat
