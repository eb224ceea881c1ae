package jsontext

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how many arrays and objects may be open at once inside one value; the limit of encoding/json.
const MaxDepth = 10_000

// Error says where and why a text was refused.
type Error struct {
	Offset int    // byte offset of the fault in the text given to the Cursor; its length when the text ends too early
	Reason string // lower case, without the offset
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Reasons that tests and callers compare.
const (
	reasonEnd     = "unexpected end"
	reasonUTF8    = "invalid UTF-8"
	reasonControl = "raw control character in a string"
	reasonEscape  = "bad escape"
	reasonDepth   = "nested too deep"
	reasonNumber  = "bad number"
	reasonValue   = "a value was expected"
	reasonBOM     = "byte order mark"
)

// stack remembers for each open level whether it is an object. Bits above the current depth are garbage.
type stack [(MaxDepth + 63) / 64]uint64

func (s *stack) set(depth int, object bool) {
	bit := uint64(1) << (depth & 63)
	if object {
		s[depth>>6] |= bit
	} else {
		s[depth>>6] &^= bit
	}
}

func (s *stack) object(depth int) bool { return s[depth>>6]>>(depth&63)&1 != 0 }

// space steps over white space from i and reports whether a CR or LF was among it.
func space(b []byte, i int) (next int, breaks bool) {
	for i < len(b) {
		switch b[i] {
		case ' ', '\t':
		case '\n', '\r':
			breaks = true
		default:
			return i, breaks
		}
		i++
	}
	return i, breaks
}

// scan checks the value that starts at i (no white space before it) and returns where it ends. It loops and keeps its levels in
// st, so depth costs one bit a level and no Go stack. What most texts are made of, strings without anything to look at and no white space
// between tokens, is stepped over here; all else by the functions below, which alone know what is wrong.
func scan(b []byte, i int, st *stack) (end int, breaks bool, err error) {
	depth := 0      // levels open; level n is bit n-1
	object := false // what the innermost one is
	key := false
	for {
		// Here a value or, when key is set, a member's name must start.
		if key {
			if next := quick(b, i); next > 0 && next+1 < len(b) && b[next] == ':' && b[next+1] > ' ' {
				i = next + 1
			} else if i, breaks, err = name(b, i, breaks); err != nil {
				return i, breaks, err
			}
			key = false
		}
		if next := quick(b, i); next > 0 {
			i = next
		} else {
			var opened bool
			if i, opened, err = atom(b, i, depth, st); err != nil {
				return i, breaks, err
			}
			if opened {
				depth++
				var nl bool
				i, nl = space(b, i)
				breaks = breaks || nl
				object = st.object(depth - 1)
				if i >= len(b) || b[i] != closing(object) {
					key = object
					continue
				}
				i, depth = i+1, depth-1 // empty
				object = depth > 0 && st.object(depth-1)
			}
		}
		if depth > 0 && i+1 < len(b) && b[i] == ',' && b[i+1] > ' ' {
			i++
			key = object
			continue
		}
		i, depth, breaks, err = after(b, i, depth, breaks, st)
		if depth == 0 || err != nil {
			return i, breaks, err
		}
		object = st.object(depth - 1)
		key = object
	}
}

// quick returns the place behind the string that starts at i, if there is one with nothing in it to look at; else 0.
func quick(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return 0
	}
	if i = skip(b, i+1); i < len(b) && b[i] == '"' {
		return i + 1
	}
	return 0
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// after steps over what may follow a value: closing brackets, then either the end of the whole value (depth 0) or a comma and the
// white space behind it.
func after(b []byte, i, depth int, breaks bool, st *stack) (int, int, bool, error) {
	for depth > 0 {
		var nl bool
		i, nl = space(b, i)
		breaks = breaks || nl
		if i >= len(b) {
			return i, depth, breaks, &Error{i, reasonEnd}
		}
		object := st.object(depth - 1)
		switch b[i] {
		case ',':
			i, nl = space(b, i+1)
			return i, depth, breaks || nl, nil
		case closing(object):
			i, depth = i+1, depth-1
		default:
			if object {
				return i, depth, breaks, &Error{i, "',' or '}' was expected"}
			}
			return i, depth, breaks, &Error{i, "',' or ']' was expected"}
		}
	}
	return i, depth, breaks, nil
}

// name steps over a member's name, its colon and the white space up to the value.
func name(b []byte, i int, breaks bool) (int, bool, error) {
	if i >= len(b) {
		return i, breaks, &Error{i, reasonEnd}
	}
	if b[i] != '"' {
		return i, breaks, &Error{i, "a member name in quotes was expected"}
	}
	i, err := text(b, i)
	if err != nil {
		return i, breaks, err
	}
	i, nl := space(b, i)
	if i >= len(b) {
		return i, breaks, &Error{i, reasonEnd}
	}
	if b[i] != ':' {
		return i, breaks, &Error{i, "':' was expected"}
	}
	i, nl2 := space(b, i+1)
	return i, breaks || nl || nl2, nil
}

// atom steps over a scalar, or over the bracket that opens an object or array (opened), which it notes as level depth.
func atom(b []byte, i, depth int, st *stack) (next int, opened bool, err error) {
	if i >= len(b) {
		return i, false, &Error{i, reasonEnd}
	}
	switch c := b[i]; c {
	case '"':
		i, err = text(b, i)
	case '{', '[':
		if depth == MaxDepth {
			return i, false, &Error{i, reasonDepth}
		}
		st.set(depth, c == '{')
		return i + 1, true, nil
	case 't':
		i, err = literal(b, i, "true")
	case 'f':
		i, err = literal(b, i, "false")
	case 'n':
		i, err = literal(b, i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		i, err = number(b, i)
	case 0xef:
		if i == 0 && len(b) >= 3 && b[1] == 0xbb && b[2] == 0xbf {
			return i, false, &Error{i, reasonBOM}
		}
		return i, false, &Error{i, reasonValue}
	default:
		return i, false, &Error{i, reasonValue}
	}
	return i, false, err
}

func literal(b []byte, i int, word string) (int, error) {
	for k := 0; k < len(word); k++ {
		if i+k >= len(b) {
			return i + k, &Error{i + k, reasonEnd}
		}
		if b[i+k] != word[k] {
			return i + k, &Error{i + k, "bad literal, " + word + " was expected"}
		}
	}
	return i + len(word), nil
}

// number steps over a number: minus, digits without a leading zero, fraction, exponent.
func number(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	var err error
	if i < len(b) && b[i] == '0' {
		i++
		if i < len(b) && b[i]-'0' < 10 {
			return i, &Error{i, reasonNumber}
		}
	} else if i, err = digits(b, i); err != nil {
		return i, err
	}
	if i < len(b) && b[i] == '.' {
		if i, err = digits(b, i+1); err != nil {
			return i, err
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i, nil
}

// digits steps over one digit or more.
func digits(b []byte, i int) (int, error) {
	start := i
	for i < len(b) && b[i]-'0' < 10 {
		i++
	}
	if i == start {
		if i == len(b) {
			return i, &Error{i, reasonEnd}
		}
		return i, &Error{i, reasonNumber}
	}
	return i, nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, with the high bit of each byte of w, a byte that text must look at: a quote, a backslash, a control character or
// one outside ASCII. The lowest mark is exact; marks above it may be false, because a borrow runs upwards.
func special(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w - ones*0x20) | (quote - ones) | (slash - ones) | w) & highs
}

// skip returns the place of the first byte from i on that text must look at; at the end of b it may be one before that.
func skip(b []byte, i int) int {
	for range 2 { // most strings are short
		if i+8 > len(b) {
			return i
		}
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i+32 <= len(b) { // four words at a time up to the first byte to look at, which long ones have at their end
		w := b[i : i+32]
		if special(binary.LittleEndian.Uint64(w))|special(binary.LittleEndian.Uint64(w[8:]))|
			special(binary.LittleEndian.Uint64(w[16:]))|special(binary.LittleEndian.Uint64(w[24:])) != 0 {
			break
		}
		i += 32
	}
	for i+8 <= len(b) {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	return i
}

// text steps over the string that starts with the quote at i.
func text(b []byte, i int) (int, error) {
	i++
	for {
		i = skip(b, i)
		if i >= len(b) {
			return i, &Error{i, reasonEnd}
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			var err error
			if i, err = escape(b, i); err != nil {
				return i, err
			}
		case c < 0x20:
			return i, &Error{i, reasonControl}
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n <= 1 {
				return i, &Error{i, reasonUTF8}
			}
			i += n
		}
	}
}

// escape steps over the escape that starts with the backslash at i. A lone surrogate is grammar, so it passes.
func escape(b []byte, i int) (int, error) {
	i++
	if i >= len(b) {
		return i, &Error{i, reasonEnd}
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, nil
	case 'u':
		for k := 1; k <= 4; k++ {
			if i+k >= len(b) {
				return i + k, &Error{i + k, reasonEnd}
			}
			if hex(b[i+k]) < 0 {
				return i + k, &Error{i + k, reasonEscape}
			}
		}
		return i + 5, nil
	}
	return i, &Error{i, reasonEscape}
}

// hex returns the value of a hexadecimal digit, or -1.
func hex(c byte) int {
	switch {
	case c-'0' < 10:
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
