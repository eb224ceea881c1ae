package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Spooled is an object of a store on a disk: a footer is read first, and stands last. Its file has no name any more; it is gone when it is closed.
type Spooled struct {
	*os.File
	Size int64 // bytes
}

// Spool copies an object to a temporary file.
func Spool(r io.Reader) (*Spooled, error) {
	f, err := os.CreateTemp("", "queen-lake-*.parquet")
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(f, r)
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(fmt.Errorf("copy a Parquet object to a temporary file: %w", err), f.Close())
	}
	return &Spooled{f, n}, nil
}
