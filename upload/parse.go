package upload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"queen/stages"
)

const (
	// maxString bounds a string of a manifest, bytes: no name or key comes near.
	maxString = 1 << 20
	// maxLost bounds what is kept of `lost`, bytes of its text.
	maxLost = 256 << 20
)

// ParseManifest reads a manifest strictly: anything but the exact bytes that Append writes is an error.
func ParseManifest(text []byte) (*Manifest, error) {
	var objects []Object
	m, err := readManifest(bytes.NewReader(text), func(o Object) { objects = append(objects, o) })
	if err != nil {
		return nil, err
	}
	m.Objects = objects
	return m, nil
}

// readManifest reads a manifest as strictly as ParseManifest and hands its objects on one by one, so that it takes no memory for them: a window of
// 100,000 partitions has tens of megabytes of them. Sums and numbers are not compared with each other.
func readManifest(from io.Reader, object func(Object)) (*Manifest, error) {
	p := &manifestParser{r: bufio.NewReaderSize(from, 32<<10)}
	m := &Manifest{Lost: []Lost{}}
	p.head(m)
	for p.more('{', ']') {
		object(p.object())
	}
	p.literal(`],"records":`)
	m.Records = p.integer()
	p.literal(`,"bytes":`)
	m.Bytes = p.integer()
	p.literal(`,"partitions":`)
	m.Partitions = int(p.integer())
	if p.next(`,"minTs":`) {
		m.MinTS = new(stages.Micros(p.integer()))
		p.literal(`,"maxTs":`)
		m.MaxTS = new(stages.Micros(p.integer()))
	}
	p.literal(`,"lost":[`)
	for begin := p.read; p.more('{', ']') && p.read-begin < maxLost; {
		m.Lost = append(m.Lost, p.lost())
	}
	p.literal(`],"writer":`)
	m.Writer = p.text()
	p.literal(`,"committedAt":`)
	m.CommittedAt = p.text()
	p.literal(`}`)
	p.end()
	if p.err != nil {
		return nil, fmt.Errorf("manifest: it is not in the form that queen writes, or it was cut short: %w", p.err)
	}
	return m, nil
}

// manifestParser reads from the front of a text. After the first error it reads nothing more and returns zeros.
type manifestParser struct {
	r    *bufio.Reader
	read int64 // bytes
	raw  []byte
	list bool // in a list, behind an element
	err  error
}

func (p *manifestParser) head(m *Manifest) {
	for _, f := range []struct {
		before string
		into   *string
	}{{`{"sink":`, &m.Sink}, {`,"tenant":`, &m.Tenant}, {`,"queue":`, &m.Queue}} {
		p.literal(f.before)
		*f.into = p.text()
	}
	p.literal(`,"k":`)
	k, err := strconv.ParseUint(string(p.digits()), 10, 64)
	p.check(err == nil && strconv.FormatUint(k, 10) == string(p.raw))
	m.K = k
	p.literal(`,"tStart":`)
	m.Start = stages.Micros(p.integer())
	p.literal(`,"tEnd":`)
	m.End = stages.Micros(p.integer())
	for _, f := range []struct {
		before string
		into   *string
	}{{`,"format":`, &m.Format}, {`,"compression":`, &m.Compression}, {`,"layout":`, &m.Layout}} {
		p.literal(f.before)
		*f.into = p.text()
	}
	p.literal(`,"objects":[`)
}

func (p *manifestParser) object() (o Object) {
	p.literal(`{"key":`)
	o.Key = p.text()
	p.literal(`,"bytes":`)
	o.Bytes = p.integer()
	p.literal(`,"records":`)
	o.Records = p.integer()
	p.literal(`,"sha256":`)
	o.SHA256 = p.text()
	if p.next(`,"partition":`) {
		o.Of = &stages.Object{Partition: p.text()}
		p.literal(`,"firstOffset":`)
		o.Of.First = p.integer()
		p.literal(`,"lastOffset":`)
		o.Of.Last = p.integer()
	}
	p.literal(`}`)
	return o
}

func (p *manifestParser) lost() (l Lost) {
	p.literal(`{"partition":`)
	l.Partition = p.text()
	p.literal(`,"from":`)
	l.From = p.integer()
	p.literal(`,"to":`)
	l.To = p.integer()
	p.literal(`}`)
	return l
}

// more says that another element of a list begins here, which open does, and steps over the comma before it; close ends the list.
func (p *manifestParser) more(open, close byte) bool {
	b, err := p.r.Peek(1)
	if p.err != nil || err != nil || b[0] == close {
		p.list = false
		return false // what is there is for the caller's literal to complain about
	}
	if p.list {
		p.literal(`,`)
	}
	p.list = true
	b, err = p.r.Peek(1)
	p.check(err == nil && b[0] == open)
	return p.err == nil
}

// next steps over text if it stands here.
func (p *manifestParser) next(text string) bool {
	if b, err := p.r.Peek(len(text)); p.err != nil || err != nil || string(b) != text {
		return false
	}
	p.literal(text)
	return p.err == nil
}

func (p *manifestParser) literal(text string) {
	if p.err != nil {
		return
	}
	b, err := p.r.Peek(len(text))
	p.check(err == nil && string(b) == text)
	p.skip(len(text))
}

// integer reads a whole number in its one spelling.
func (p *manifestParser) integer() int64 {
	n, err := strconv.ParseInt(string(p.digits()), 10, 64)
	p.check(err == nil && strconv.FormatInt(n, 10) == string(p.raw))
	return n
}

// digits reads what a number may consist of into raw.
func (p *manifestParser) digits() []byte {
	p.raw = p.raw[:0]
	for p.err == nil && len(p.raw) < 21 {
		b, err := p.r.Peek(1)
		if err != nil || b[0] != '-' && (b[0] < '0' || b[0] > '9') {
			break
		}
		p.raw = append(p.raw, b[0])
		p.skip(1)
	}
	return p.raw
}

// text reads a string in its one spelling.
func (p *manifestParser) text() (s string) {
	p.literal(`"`)
	p.raw = append(p.raw[:0], '"')
	for escaped := false; p.err == nil; {
		b, err := p.r.ReadByte()
		p.read++
		p.raw = append(p.raw, b)
		p.check(err == nil && len(p.raw) < maxString)
		if b == '"' && !escaped {
			break
		}
		escaped = b == '\\' && !escaped
	}
	if p.err == nil {
		err := json.Unmarshal(p.raw, &s)
		p.check(err == nil && bytes.Equal(appendString(nil, s), p.raw))
	}
	return s
}

func (p *manifestParser) skip(n int) {
	if p.err == nil {
		_, p.err = p.r.Discard(n)
		p.read += int64(n)
	}
}

// end reads to the end, at which it must be.
func (p *manifestParser) end() {
	if p.err == nil {
		_, err := p.r.ReadByte()
		p.check(errors.Is(err, io.EOF))
	}
}

func (p *manifestParser) check(ok bool) {
	if !ok && p.err == nil {
		p.err = fmt.Errorf("at byte %d", p.read)
	}
}
