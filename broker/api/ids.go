package api

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// minter makes message ids: UUIDv7, strictly increasing on this node. An id is 48 bits of milliseconds, 12 bits that count within
// the millisecond, and 62 random bits. A clock that stands or steps back does not show: the count then runs on into the next
// millisecond.
type minter struct {
	now  func() time.Time
	rand io.Reader

	mu   sync.Mutex
	tick uint64 // milliseconds << 12 | count of the last id
}

// mint returns n ids in order.
func (m *minter) mint(n int) ([][16]byte, error) {
	noise := make([]byte, 8*n)
	first, err := m.take(noise)
	if err != nil {
		return nil, err
	}
	ids := make([][16]byte, n)
	for i := range ids {
		tick := first + uint64(i)
		binary.BigEndian.PutUint64(ids[i][:8], tick>>12<<16|0x7000|tick&0xfff)
		copy(ids[i][8:], noise[8*i:8*i+8])
		ids[i][8] = ids[i][8]&0x3f | 0x80
	}
	return ids, nil
}

// random fills b from the source of the ids, which may be one that only one goroutine at a time can read.
func (m *minter) random(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := io.ReadFull(m.rand, b); err != nil {
		return fmt.Errorf("random bytes: %w", err)
	}
	return nil
}

// take fills noise and takes one tick for each 8 bytes of it.
func (m *minter) take(noise []byte) (first uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := io.ReadFull(m.rand, noise); err != nil {
		return 0, fmt.Errorf("message ids: %w", err)
	}
	first = max(uint64(m.now().UnixMilli())<<12, m.tick+1)
	m.tick = first + uint64(len(noise)/8) - 1
	return first, nil
}

// appendUUID appends an id in its text form.
func appendUUID(b []byte, id [16]byte) []byte {
	const digits = "0123456789abcdef"
	n := len(b)
	b = append(b, "00000000-0000-0000-0000-000000000000"...)
	text := (*[36]byte)(b[n:])
	for i, c := range id {
		at := uuidText[i]
		text[at], text[at+1] = digits[c>>4], digits[c&15]
	}
	return b
}

// uuidText is where each byte of an id stands in its text.
var uuidText = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// parseUUID reads the text form, hyphens in place, either case.
func parseUUID(s []byte) (id [16]byte, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return id, false
			}
			continue
		}
		d := digit(s[i])
		if d < 0 {
			return id, false
		}
		id[n>>1] = id[n>>1]<<4 | byte(d)
		n++
	}
	return id, true
}

func digit(c byte) int {
	switch {
	case c-'0' < 10:
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
