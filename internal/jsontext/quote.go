package jsontext

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote decodes a string value: the bytes of its text, which are a slice of the value when it holds no escape. It fails when
// the value is not a string, or holds a surrogate escape without its other half: such a text has no UTF-8 form, and replacing it
// would make two names one.
func (v Value) Unquote() ([]byte, error) {
	if v.Kind() != String {
		return nil, &Error{v.Offset, "a string was expected"}
	}
	inner := v.Text[1 : len(v.Text)-1]
	if v.plain || bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	out, ok := appendUnescaped(make([]byte, 0, len(inner)), inner)
	if !ok {
		return nil, &Error{v.Offset, "half a surrogate pair in a string"}
	}
	return out, nil
}

// appendUnescaped appends the decoded form of the inside of a checked string; ok is false at half a surrogate pair.
func appendUnescaped(dst, s []byte) (out []byte, ok bool) {
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if s[i+1] != 'u' {
			dst = append(dst, plain(s[i+1]))
			i += 2
			continue
		}
		r := hex4(s[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			if len(s)-i < 6 || s[i] != '\\' || s[i+1] != 'u' {
				return dst, false
			}
			if r = utf16.DecodeRune(r, hex4(s[i+2:])); r == utf8.RuneError {
				return dst, false
			}
			i += 6
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, true
}

// plain is what a one-letter escape stands for.
func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(s []byte) rune {
	return rune(hex(s[0])<<12 | hex(s[1])<<8 | hex(s[2])<<4 | hex(s[3]))
}

// AppendQuoted appends s as a JSON string, escaped as AppendEscaped does; bytes of s that are not UTF-8 become U+FFFD, so that the result is
// JSON whatever s holds.
func AppendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		valid := validPrefix(s)
		dst = AppendEscaped(dst, s[:valid])
		if s = s[valid:]; len(s) > 0 {
			dst = utf8.AppendRune(dst, utf8.RuneError)
			s = s[1:]
		}
	}
	return append(dst, '"')
}

// validPrefix returns how many bytes of s are whole UTF-8 characters.
func validPrefix[T string | []byte](s T) int {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune([]byte(s[i:min(len(s), i+utf8.UTFMax)]))
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s)
}

const hexDigits = "0123456789abcdef"

// AppendEscaped appends s as the inside of a JSON string. Escaped are the quote, the backslash, \b \f \n \r \t and other bytes below 0x20 as
// \u00xx with lower-case digits, and nothing else (docs/formats.md 7.2): not what encoding/json escapes besides, and no byte is replaced.
func AppendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, s[start:]...)
}
