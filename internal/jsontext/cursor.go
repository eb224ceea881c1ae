package jsontext

import "bytes"

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota + 1
	Bool
	Number
	String
	Array
	Object
)

// Value is one checked value, cut out of the text that holds it. The zero Value stands for an absent one: its Text is nil.
type Value struct {
	Text   []byte // the value's own bytes, a slice of the whole text; no white space around it
	Offset int    // where it starts in the whole text
	Breaks bool   // a raw CR or LF stands between its tokens

	plain bool // a string that is known to hold no escape
}

// Kind says what the value is; 0 for the zero Value.
func (v Value) Kind() Kind {
	if len(v.Text) == 0 {
		return 0
	}
	switch v.Text[0] {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '[':
		return Array
	case '{':
		return Object
	}
	return Number
}

// Absent reports whether the value was not there or is null.
func (v Value) Absent() bool { return len(v.Text) == 0 || v.Text[0] == 'n' }

// Scan checks that b is one value with nothing but white space around it, and cuts it.
func Scan(b []byte) (Value, error) {
	c := NewCursor(b)
	v, err := c.Value()
	if err == nil {
		err = c.End()
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// Cursor walks a text once, front to back. Value cuts one whole value; Object and Array step into one level and call back for each
// member or element, which the callback must consume by exactly one call of Value, Object or Array. Everything that the cursor has
// passed is checked, so a text is valid when the walk and then End succeed. After an error it is of no further use.
//
// Depth: a Value may be MaxDepth deep from itself; levels entered by Object and Array are the caller's own and are not counted.
type Cursor struct {
	b   []byte
	pos int
	st  stack
}

// NewCursor starts at the first byte of b. Values are slices of b.
func NewCursor(b []byte) *Cursor { return &Cursor{b: b} }

// Reset starts at the first byte of another text, as NewCursor does. The zero Cursor may be reset too.
func (c *Cursor) Reset(b []byte) { c.b, c.pos = b, 0 }

// Offset is the position in the text: between calls, right behind what was consumed.
func (c *Cursor) Offset() int { return c.pos }

// Value checks and cuts the next value.
func (c *Cursor) Value() (Value, error) {
	start, _ := space(c.b, c.pos)
	if end := quick(c.b, start); end > 0 {
		c.pos = end
		return Value{Text: c.b[start:end:end], Offset: start, plain: true}, nil
	}
	end, breaks, err := scan(c.b, start, &c.st)
	if err != nil {
		return Value{}, err
	}
	c.pos = end
	return Value{Text: c.b[start:end:end], Offset: start, Breaks: breaks}, nil
}

// Peek returns the kind of the next value without consuming it, and its offset. Kind 0 means that none can start there.
func (c *Cursor) Peek() (Kind, int) {
	c.pos, _ = space(c.b, c.pos)
	if c.pos >= len(c.b) {
		return 0, c.pos
	}
	switch c.b[c.pos] {
	case '{', '[', '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Value{Text: c.b[c.pos:]}.Kind(), c.pos
	}
	return 0, c.pos
}

// Object steps into the object that comes next and calls member for each of its members, with the cursor before the member's
// value. Name decodes it.
func (c *Cursor) Object(member func(name Name) error) error {
	return c.walk('{', func(int) error {
		start := c.pos
		if end := quick(c.b, start); end > 0 && end+1 < len(c.b) && c.b[end] == ':' && c.b[end+1] > ' ' {
			c.pos = end + 1
			return member(Name{Raw: c.b[start+1 : end-1 : end-1], Offset: start, plain: true})
		}
		if start < len(c.b) && c.b[start] != '"' {
			return &Error{start, "a member name in quotes was expected"}
		}
		next, _, err := name(c.b, start, false)
		if err != nil {
			return err
		}
		end := next - 1 // back over white space and colon to the closing quote: none of them is a quote
		for c.b[end] != '"' {
			end--
		}
		c.pos = next
		return member(Name{Raw: c.b[start+1 : end : end], Offset: start})
	})
}

// Array steps into the array that comes next and calls element for each element, with the cursor before it.
func (c *Cursor) Array(element func(i int) error) error { return c.walk('[', element) }

func (c *Cursor) walk(open byte, item func(i int) error) error {
	c.pos, _ = space(c.b, c.pos)
	if c.pos >= len(c.b) {
		return &Error{c.pos, reasonEnd}
	}
	if start := c.pos; c.b[start] != open {
		if _, err := c.Value(); err != nil { // a fault of grammar comes before one of shape
			return err
		}
		return &Error{start, "'" + string(open) + "' was expected"}
	}
	c.pos, _ = space(c.b, c.pos+1)
	shut := open + 2 // '{' '}' and '[' ']' are two apart
	if c.pos < len(c.b) && c.b[c.pos] == shut {
		c.pos++
		return nil
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return err
		}
		c.pos, _ = space(c.b, c.pos)
		if c.pos >= len(c.b) {
			return &Error{c.pos, reasonEnd}
		}
		switch c.b[c.pos] {
		case shut:
			c.pos++
			return nil
		case ',':
			c.pos, _ = space(c.b, c.pos+1)
		default:
			return &Error{c.pos, "',' or '" + string(shut) + "' was expected"}
		}
	}
}

// End checks that nothing but white space is left.
func (c *Cursor) End() error {
	c.pos, _ = space(c.b, c.pos)
	if c.pos < len(c.b) {
		return &Error{c.pos, "nothing more was expected"}
	}
	return nil
}

// Name is a member's name as it stands in the text.
type Name struct {
	Raw    []byte // between the quotes, escapes not decoded
	Offset int    // of the opening quote

	plain bool // known to hold no escape
}

// Text returns the decoded name; ok is false when it holds half a surrogate pair and so has no UTF-8 form.
func (n Name) Text() (text []byte, ok bool) {
	if n.plain || bytes.IndexByte(n.Raw, '\\') < 0 {
		return n.Raw, true
	}
	return appendUnescaped(nil, n.Raw)
}

// Is reports whether the decoded name is s.
func (n Name) Is(s string) bool {
	text, ok := n.Text()
	return ok && string(text) == s
}
