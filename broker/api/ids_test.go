package api

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
)

// TestMint: ids are UUIDv7, rise whatever the clock does, and carry its milliseconds.
func TestMint(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_123)
	m := &minter{now: func() time.Time { return at }, rand: &counting{}}
	var last [16]byte
	for round, step := range []time.Duration{0, 0, time.Millisecond, -time.Hour, 2 * time.Second} {
		at = at.Add(step)
		ids, err := m.mint(5000) // more than the 4096 that a millisecond counts
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if bytes.Compare(id[:], last[:]) <= 0 {
				t.Fatalf("round %d: id %d is not above the one before", round, i)
			}
			last = id
		}
		u := uuid.UUID(ids[0])
		if u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%v is version %d variant %v", u, u.Version(), u.Variant())
		}
		text := string(appendUUID(nil, ids[0]))
		if back, ok := parseUUID([]byte(text)); text != u.String() || !ok || back != ids[0] {
			t.Errorf("%s is written %s, read %v", u, text, ok)
		}
	}
	if sec, nsec := uuid.UUID(last).Time().UnixTime(); sec*1000+nsec/1e6 < at.UnixMilli() {
		t.Errorf("the last id is of %d.%d", sec, nsec)
	}
	m.rand = iotest.ErrReader(errors.New("dry"))
	if _, err := m.mint(1); err == nil {
		t.Error("no error without random bytes")
	}
}

func TestParseUUID(t *testing.T) {
	for _, bad := range []string{"", "0190a0b0-0000-7000-8000-0000000000f", "0190a0b00-000-7000-8000-0000000000ff", "0190a0b0-0000-7000-8000-0000000000fg", "{190a0b0-0000-7000-8000-0000000000f}"} {
		if _, ok := parseUUID([]byte(bad)); ok {
			t.Errorf("parseUUID(%q) took it", bad)
		}
	}
}
