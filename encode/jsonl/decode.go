package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"unicode/utf8"

	"queen/encode/rows"
	"queen/stages"
)

// MaxLine bounds one line in bytes. A record is at most a push (48 MiB), and escaping makes the rest of a line longer by less.
const MaxLine = 64 << 20

// Decode reads an object back, line by line. It accepts only what Encode can have written: the five fields in order, no
// other space or escape, a payload that is JSON, a last line that ends. The first error ends the sequence and names the line.
func (f Format) Decode(r io.Reader) iter.Seq2[rows.Row, error] {
	return func(yield func(rows.Row, error) bool) {
		z, err := f.codec.Reader(r)
		if err != nil {
			yield(rows.Row{}, err)
			return
		}
		defer z.Close()
		in := bufio.NewReaderSize(z, 256<<10)
		var buf []byte
		for n := 1; ; n++ {
			var line []byte
			line, buf, err = readLine(in, buf[:0])
			if errors.Is(err, io.EOF) {
				return
			}
			var row rows.Row
			if err == nil {
				row, err = parseLine(line)
			}
			if err != nil {
				yield(rows.Row{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// readLine returns the next line without its end, or io.EOF at the end of the object.
func readLine(in *bufio.Reader, buf []byte) (line, scratch []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case err == nil && len(buf) == 0:
			return part[:len(part)-1], buf, nil
		case err == nil:
			buf = append(buf, part...)
			return buf[:len(buf)-1], buf, nil
		case errors.Is(err, io.EOF) && len(buf)+len(part) == 0:
			return nil, buf, io.EOF
		case errors.Is(err, io.EOF):
			return nil, buf, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, buf, err
		}
		if buf = append(buf, part...); len(buf) > MaxLine {
			return nil, buf, fmt.Errorf("longer than %d bytes", MaxLine)
		}
	}
}

func parseLine(line []byte) (row rows.Row, err error) {
	if !utf8.Valid(line) {
		return row, errors.New("not UTF-8")
	}
	p := parser{rest: line}
	p.skip(partPartition)
	row.Partition = p.str()
	p.skip(partOffset)
	row.Offset = p.integer()
	p.skip(partTxID)
	row.TxID = p.str()
	p.skip(partTS)
	row.TS = p.stamp()
	p.skip(partPayload)
	if p.err != nil {
		return rows.Row{}, fmt.Errorf("byte %d: %w", len(line)-len(p.rest), p.err)
	}
	n := len(p.rest) - 1
	if n < 1 || p.rest[n] != '}' {
		return rows.Row{}, errors.New("the line does not end")
	}
	row.Payload = p.rest[:n:n]
	if bytes.IndexByte(row.Payload, '\r') >= 0 || !json.Valid(row.Payload) {
		return rows.Row{}, errors.New("the payload is not one line of JSON")
	}
	return row, nil
}

// parser takes a line apart; after its first error it does nothing.
type parser struct {
	rest []byte
	err  error
}

func (p *parser) fail(text string) {
	if p.err == nil {
		p.err = errors.New(text)
	}
}

func (p *parser) skip(want string) {
	if p.err == nil && !bytes.HasPrefix(p.rest, []byte(want)) {
		p.fail("expected " + want)
	}
	if p.err == nil {
		p.rest = p.rest[len(want):]
	}
}

// str reads up to the closing quote and leaves it.
func (p *parser) str() string {
	if p.err != nil {
		return ""
	}
	var out []byte
	for i := 0; i < len(p.rest); {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i:]
			return string(out)
		case c < 0x20:
			p.fail("a control character in a string")
			return ""
		case c != '\\':
			out = append(out, c)
			i++
		default:
			b, n := unescape(p.rest[i:])
			if n == 0 {
				p.fail("an escape that the writer does not use")
				return ""
			}
			out = append(out, b)
			i += n
		}
	}
	p.fail("a string without an end")
	return ""
}

// unescape decodes the escape at the start of s and returns its length, 0 for one that the writer never writes.
func unescape(s []byte) (byte, int) {
	if len(s) >= 2 {
		if i := bytes.IndexByte([]byte(`"\bfnrt`), s[1]); i >= 0 {
			return "\"\\\b\f\n\r\t"[i], 2
		}
	}
	if len(s) < 6 || string(s[:4]) != `\u00` {
		return 0, 0
	}
	hi, lo := bytes.IndexByte([]byte("01"), s[4]), bytes.IndexByte([]byte("0123456789abcdef"), s[5])
	if hi < 0 || lo < 0 {
		return 0, 0
	}
	b := byte(hi<<4 | lo)
	if bytes.IndexByte([]byte("\b\f\n\r\t"), b) >= 0 {
		return 0, 0 // it has a short form
	}
	return b, 6
}

func (p *parser) integer() int64 {
	if p.err != nil {
		return 0
	}
	n := bytes.IndexByte(p.rest, ',')
	if n < 0 {
		p.fail("expected an integer")
		return 0
	}
	v, err := strconv.ParseInt(string(p.rest[:n]), 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != string(p.rest[:n]) {
		p.fail("not an offset")
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

const stampSize = len("2006-01-02T15:04:05.000000Z")

func (p *parser) stamp() stages.Micros {
	if p.err != nil {
		return 0
	}
	ts, err := stages.ParseISO(string(p.rest[:min(len(p.rest), stampSize)]))
	if err != nil {
		p.fail(err.Error())
		return 0
	}
	p.rest = p.rest[stampSize:]
	return ts
}
