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
	if bytes.IndexByte(inner, '\\') < 0 {
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

// AppendQuoted appends s as a JSON string. Escaped are the quote, the backslash, \b \f \n \r \t and other bytes below 0x20 as
// \u00xx with lower-case digits, and nothing else; bytes of s that are not UTF-8 become U+FFFD, so that the result is JSON.
func AppendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := decodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		default:
			dst = appendControl(dst, c)
		}
	}
	return append(dst, '"')
}

func decodeRune[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRune([]byte(s[:min(len(s), utf8.UTFMax)]))
}

func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}
