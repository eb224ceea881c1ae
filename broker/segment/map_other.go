//go:build !linux

package segment

import (
	"context"
	"errors"
)

// Elsewhere than on Linux segments are read, not mapped.

func mapFile(uintptr, int64) ([]byte, error) { return nil, errors.ErrUnsupported }
func tryAhead(context.Context, []byte)       {}
func unmapFile([]byte) error                 { return nil }
