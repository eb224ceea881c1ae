package kv_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/broker/kv"
)

// memTx is a Tx in a map.
type memTx struct {
	rows map[string]string
	next uint64
}

var _ kv.Tx = (*memTx)(nil)

func newMemTx() *memTx { return &memTx{rows: make(map[string]string), next: 1} }

func (m *memTx) Get(key []byte) ([]byte, error) {
	if v, ok := m.rows[string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (m *memTx) Set(key, value []byte) error {
	m.rows[string(key)] = string(value)
	return nil
}

func (m *memTx) Delete(key []byte) error {
	if _, ok := m.rows[string(key)]; !ok {
		return fmt.Errorf("delete of %q, which is not there", key)
	}
	delete(m.rows, string(key))
	return nil
}

func (m *memTx) Scan(lower, upper []byte, fn func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		if k >= string(lower) && k < string(upper) && !fn([]byte(k), []byte(m.rows[k])) {
			break
		}
	}
	return nil
}

func (m *memTx) NextVersion() uint64     { return m.next }
func (m *memTx) SetNextVersion(v uint64) { m.next = v }

// dump writes all rows as people read them.
func (m *memTx) dump() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		v := m.rows[k]
		if k[0] == 'X' {
			fmt.Fprintf(&b, "X %d %s\n", binary.BigEndian.Uint64([]byte(k[1:])), docName(k[9:]))
			continue
		}
		expires := fmt.Sprint(int64(binary.BigEndian.Uint64([]byte(v[9:]))))
		if expires == fmt.Sprint(int64(kv.Never)) {
			expires = "never"
		}
		fmt.Fprintf(&b, "K %s version=%d expires=%s updated=%d %s\n", docName(k[1:]),
			binary.BigEndian.Uint64([]byte(v[1:])), expires, binary.BigEndian.Uint64([]byte(v[17:])), v[25:])
	}
	fmt.Fprintf(&b, "next version %d\n", m.next)
	return b.String()
}

// docName takes tenant, namespace and key apart.
func docName(k string) string {
	n := int(k[16])
	return fmt.Sprintf("%d/%s/%s", k[0], k[17:17+n], k[17+n:])
}

// show writes an outcome as people read it.
func show(out kv.Outcome) string {
	var b strings.Builder
	if l := out.Lost; l != nil {
		fmt.Fprintf(&b, "lost: operation %d, %s, version %d, %s\n", l.FailedIndex, l.Reason, l.Version, text(l.Value))
	}
	for i, r := range out.Results {
		fmt.Fprintf(&b, "%d %v", i, r.Kind)
		switch {
		case r.Kind.Multi():
			fmt.Fprintf(&b, " missing=%v truncated=%v", r.Missing, r.Truncated)
			if after, ok := r.NextAfter(); ok {
				fmt.Fprintf(&b, " nextAfter=%s", after)
			}
			b.WriteString("\n")
			for _, row := range r.Rows {
				fmt.Fprintf(&b, "   %s\n", showRow(row))
			}
			continue
		case r.Kind == kv.Get && r.Found:
			fmt.Fprintf(&b, " %s", showRow(r.Row))
		case r.Kind == kv.Get:
			fmt.Fprintf(&b, " %s: none", r.Key)
		case r.Applied:
			fmt.Fprintf(&b, " %s applied, version %d, %s", r.Key, r.Version, text(r.Value))
		default:
			fmt.Fprintf(&b, " %s not applied: %s, version %d, %s", r.Key, r.Reason, r.Version, text(r.Value))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func showRow(r kv.Row) string {
	expires := "never"
	if r.Expires != kv.Never {
		expires = kv.FormatTime(r.Expires)
	}
	return fmt.Sprintf("%s = %s, version %d, expires %s, updated %s", r.Key, text(r.Value), r.Version, expires, kv.FormatTime(r.Updated))
}

func text(v []byte) string {
	if v == nil {
		return "-"
	}
	if len(v) > 60 {
		return fmt.Sprintf("%d bytes", len(v))
	}
	return string(v)
}
