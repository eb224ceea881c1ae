package lake

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// Folder is a lake in a folder: the root stands for the bucket, keys are paths below it.
type Folder string

var _ Store = Folder("")

// List implements Store. Symbolic links are not followed.
func (f Folder) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		base := filepath.Join(string(f), filepath.FromSlash(prefix[:strings.LastIndexByte(prefix, '/')+1]))
		err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			object, err := f.object(path, entry)
			if err != nil || !strings.HasPrefix(object.Key, prefix) {
				return err
			}
			if !yield(object, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, fmt.Errorf("list %s: %w", base, err))
		}
	}
}

func (f Folder) object(path string, entry fs.DirEntry) (Object, error) {
	key, err := filepath.Rel(string(f), path)
	if err != nil {
		return Object{}, err
	}
	info, err := entry.Info()
	if err != nil {
		return Object{}, err
	}
	return Object{Key: filepath.ToSlash(key), Size: info.Size()}, nil
}

// Open implements Store.
func (f Folder) Open(_ context.Context, key string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), filepath.FromSlash(key)))
}
