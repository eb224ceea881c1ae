package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"queen/stages"
)

// Row is one record of a data object: a line, or a row of a Parquet file, where a NULL payload is nil. Payload is valid until the next one is read.
type Row struct {
	Partition string
	Offset    int64
	TxID      string
	TS        stages.Micros
	Payload   []byte
}

// parseLine reads one line, without its LF. The envelope must be what the sink would write for these values, byte for byte:
// no space, no other escape, no other order (docs/formats.md 7.2). The payload must be one JSON value without CR.
func parseLine(line []byte) (Row, error) {
	if !utf8.Valid(line) {
		return Row{}, errors.New("is not UTF-8")
	}
	p := cursor{rest: line}
	var r Row
	p.literal(`{"partition":`)
	r.Partition = p.text()
	p.literal(`,"offset":`)
	r.Offset = p.integer()
	p.literal(`,"transactionId":`)
	r.TxID = p.text()
	p.literal(`,"ts":`)
	stamp := p.text()
	p.literal(`,"payload":`)
	if p.err != nil {
		return r, p.err
	}
	ts, err := parseISO(stamp)
	if err != nil {
		return r, fmt.Errorf("ts %w", err)
	}
	r.TS = ts
	payload, closed := bytes.CutSuffix(p.rest, []byte("}"))
	switch {
	case !closed:
		return r, errors.New("does not end with }")
	case bytes.IndexByte(payload, '\r') >= 0:
		return r, errors.New("payload holds a raw CR")
	case !json.Valid(payload):
		return r, errors.New("payload is not one JSON value")
	}
	r.Payload = payload
	return r, nil
}

// cursor reads a text from its front. After the first error it does nothing more.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) literal(want string) {
	if c.err != nil {
		return
	}
	rest, ok := bytes.CutPrefix(c.rest, []byte(want))
	if !ok {
		c.err = fmt.Errorf("has %.40q where %q belongs", c.rest, want)
		return
	}
	c.rest = rest
}

// integer reads a whole number of at least 0 without leading zeros.
func (c *cursor) integer() int64 {
	if c.err != nil {
		return 0
	}
	n, i := int64(0), 0
	for i < len(c.rest) && i < 19 && c.rest[i] >= '0' && c.rest[i] <= '9' {
		n = n*10 + int64(c.rest[i]-'0')
		i++
	}
	if i == 0 || i > 1 && c.rest[0] == '0' || n < 0 {
		c.err = fmt.Errorf("has %.40q where a whole number belongs", c.rest)
		return 0
	}
	c.rest = c.rest[i:]
	return n
}

// text reads a JSON string in the one spelling that the lake uses.
func (c *cursor) text() string {
	if c.literal(`"`); c.err != nil {
		return ""
	}
	var out []byte
	for i := 0; i < len(c.rest); {
		switch b := c.rest[i]; {
		case b == '"':
			c.rest = c.rest[i+1:]
			return string(out)
		case b < ' ':
			c.err = fmt.Errorf("has the raw byte %#02x in a string", b)
			return ""
		case b != '\\':
			out = append(out, b)
			i++
		default:
			b, n := unescape(c.rest[i:])
			if n == 0 {
				c.err = fmt.Errorf("has the escape %.6q, which the lake does not use", c.rest[i:])
				return ""
			}
			out = append(out, b)
			i += n
		}
	}
	c.err = errors.New("has a string without an end")
	return ""
}

// unescape reads one escape and its length; 0 where the lake would have written something else.
func unescape(text []byte) (byte, int) {
	const named, means = `"\bfnrt`, "\"\\\b\f\n\r\t"
	if len(text) < 2 {
		return 0, 0
	}
	if i := bytes.IndexByte([]byte(named), text[1]); i >= 0 {
		return means[i], 2
	}
	if len(text) < 6 || string(text[:4]) != `\u00` || text[4] > '1' || text[4] < '0' {
		return 0, 0
	}
	low := bytes.IndexByte([]byte("0123456789abcdef"), text[5])
	b := (text[4]-'0')<<4 + byte(max(low, 0))
	if low < 0 || bytes.IndexByte([]byte("\b\f\n\r\t"), b) >= 0 {
		return 0, 0
	}
	return b, 6
}

// quote writes a string in the one spelling that the lake uses.
func quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		b := text[i]
		switch named := bytes.IndexByte([]byte("\"\\\b\f\n\r\t"), b); {
		case named >= 0:
			dst = append(dst, '\\', `"\bfnrt`[named])
		case b < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, b)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}
