package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// show prints the keys of the bucket, then its manifests as they are, then the lines of its data objects.
func show(f folders, out io.Writer) error {
	root := filepath.Join(f.buckets, bucket)
	var data, manifests []string
	fmt.Fprintf(out, "\nThe bucket %s holds:\n", bucket)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(key, ".") {
			return nil // the store's own
		}
		fmt.Fprintln(out, "    "+key)
		if strings.HasSuffix(key, ".jsonl.zst") {
			data = append(data, path)
		} else {
			manifests = append(manifests, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nThe manifest %s:\n%s\n", filepath.Base(path), text)
	}
	for _, path := range data {
		if err := lines(path, out); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, `
The lake stays in %s. With DuckDB, for example:

    duckdb -c "SELECT queue, partition, \"offset\", ts, payload FROM read_json('%s/queen/tenant=*/queue=orders/dt=*/hour=*/*.jsonl.zst', format = 'newline_delimited', hive_partitioning = true, columns = {partition: 'VARCHAR', \"offset\": 'BIGINT', transactionId: 'VARCHAR', ts: 'TIMESTAMPTZ', payload: 'JSON'}) ORDER BY partition, ts, \"offset\""
`, root, root)
	return nil
}

func lines(path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		return err
	}
	defer plain.Close()
	fmt.Fprintf(out, "\nThe records in %s:\n", filepath.Base(path))
	_, err = io.Copy(out, plain)
	return err
}
