package jsontext

import "unicode/utf8"

// AppendLossy appends bytes of any kind as a JSON string, what is not UTF-8 as U+FFFD.
func AppendLossy(dst, b []byte) []byte {
	dst = append(dst, '"')
	for len(b) > 0 {
		var n int
		dst, n = appendLossyRune(dst, b)
		b = b[n:]
	}
	return append(dst, '"')
}

// LossyLen is how many bytes AppendLossy appends.
func LossyLen(b []byte) int {
	var one [16]byte
	length := 2
	for len(b) > 0 {
		written, n := appendLossyRune(one[:0], b)
		length += len(written)
		b = b[n:]
	}
	return length
}

// appendLossyRune appends the first rune of b, and returns how many bytes of it that was.
func appendLossyRune(dst, b []byte) ([]byte, int) {
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		return utf8.AppendRune(dst, utf8.RuneError), n
	}
	return AppendEscaped(dst, b[:n]), n
}
