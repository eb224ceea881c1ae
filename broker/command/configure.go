package command

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"queen/broker/command/wire"
)

// Option numbers, as docs/formats.md section 2 lists them. Names, defaults and ranges are in broker/state/options.go.
const (
	OptLeaseTime uint64 = iota + 1
	OptRetryLimit
	OptRetryDelay
	OptPriority
	OptMaxSize
	OptTTL
	OptMinPopWaitTime
	OptDeadLetterQueue
	OptDLQAfterMaxRetries
	OptDelayedProcessing
	OptWindowBuffer
	OptRetentionEnabled
	OptRetentionSeconds
	OptCompletedRetentionSeconds
	OptMaxWaitTimeSeconds
	OptDedupWindowSeconds
	OptEncryptionEnabled
	OptRetentionSinkHold
	OptRetentionSinkHoldMaxSeconds
)

// OptionType is the type of an option's value.
type OptionType uint8

// The types of option values.
const (
	TypeDefault OptionType = 0 // back to the default; only in a configure command
	TypeInt     OptionType = 1
	TypeBool    OptionType = 2
	TypeString  OptionType = 3
)

// Option is one option of a queue with a value of its type; the fields of the other types are zero.
type Option struct {
	Number uint64
	Type   OptionType
	Int    int64
	Bool   bool
	Str    string
}

// OptionTypeOf returns the type that the values of an option have; ok is false for a number that is no option.
func OptionTypeOf(number uint64) (t OptionType, ok bool) {
	switch number {
	case OptDeadLetterQueue, OptDLQAfterMaxRetries, OptRetentionEnabled, OptEncryptionEnabled:
		return TypeBool, true
	case OptRetentionSinkHold:
		return TypeString, true
	}
	return TypeInt, number >= OptLeaseTime && number <= OptRetentionSinkHoldMaxSeconds
}

// AppendOptions appends an option list, sorted by number; of several values for one option the last counts.
func AppendOptions(dst []byte, options []Option) []byte {
	sorted := slices.Clone(options)
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, func(a, b Option) int { return cmp.Compare(a.Number, b.Number) })
	sorted = slices.CompactFunc(sorted, func(a, b Option) bool { return a.Number == b.Number })
	dst = binary.AppendUvarint(dst, uint64(len(sorted)))
	for _, o := range sorted {
		dst = binary.AppendUvarint(dst, o.Number)
		dst = append(dst, byte(o.Type))
		switch o.Type {
		case TypeInt:
			dst = binary.BigEndian.AppendUint64(dst, uint64(o.Int))
		case TypeBool:
			dst = append(dst, boolByte(o.Bool))
		case TypeString:
			dst = wire.AppendString(dst, o.Str)
		}
	}
	return dst
}

// ReadOptions reads an option list. Numbers must rise, be known, and have a value of their type or none.
func ReadOptions(r *wire.Reader) []Option {
	var options []Option
	last := uint64(0)
	for range r.Count(2) {
		o := Option{Number: r.Uvarint(), Type: OptionType(r.U8())}
		want, known := OptionTypeOf(o.Number)
		switch {
		case r.Err() != nil:
			return nil
		case !known || o.Number <= last:
			r.Failf("option %d after option %d", o.Number, last)
			return nil
		case o.Type != TypeDefault && o.Type != want:
			r.Failf("option %d has type %d, not %d", o.Number, o.Type, want)
			return nil
		}
		switch o.Type {
		case TypeInt:
			o.Int = r.I64()
		case TypeBool:
			o.Bool = readBool(r)
		case TypeString:
			o.Str = r.String()
		}
		last = o.Number
		options = append(options, o)
	}
	return options
}

// Mode says what happens to the options that a configure command does not name.
type Mode uint8

// The modes of a configure command.
const (
	Merge   Mode = 0 // they keep their values
	Replace Mode = 1 // they go back to their defaults
)

// Configure is the body of a configure command. It creates the queue when there is none.
type Configure struct {
	Tenant    [16]byte
	Queue     string
	Mode      Mode
	Namespace *string // nil = not named
	Task      *string // nil = not named
	Options   []Option
}

// Append appends the encoded body.
func (c Configure) Append(dst []byte) []byte {
	dst = append(dst, c.Tenant[:]...)
	dst = wire.AppendString(dst, c.Queue)
	dst = append(dst, byte(c.Mode))
	for _, s := range []*string{c.Namespace, c.Task} {
		dst = append(dst, boolByte(s != nil))
		if s != nil {
			dst = wire.AppendString(dst, *s)
		}
	}
	return AppendOptions(dst, c.Options)
}

// DecodeConfigure reads the body of a configure command.
func DecodeConfigure(body []byte) (Configure, error) {
	r := wire.NewReader(body)
	c := Configure{Tenant: r.ID(), Queue: r.String(), Mode: Mode(r.U8())}
	if c.Mode > Replace {
		r.Failf("unknown mode %d", c.Mode)
	}
	for _, s := range []**string{&c.Namespace, &c.Task} {
		if readBool(r) {
			name := r.String()
			*s = &name
		}
	}
	c.Options = ReadOptions(r)
	if err := r.End(); err != nil {
		return Configure{}, fmt.Errorf("configure body: %w", err)
	}
	return c, nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// readBool reads a byte that is 0 or 1.
func readBool(r *wire.Reader) bool {
	b := r.U8()
	if b > 1 {
		r.Failf("%d is neither 0 nor 1", b)
	}
	return b == 1
}
