// Package jsontext checks and cuts JSON text in one pass, without decoding, copying or changing a byte of it.
//
// It is the door through which producers' payloads enter the broker: what passes is one RFC 8259 value of valid UTF-8, at most
// MaxDepth deep, and the slice handed out is the producer's own text (contract S9, R6). It differs from encoding/json.Valid on
// purpose:
//
//   - bytes that are not UTF-8 (overlong forms, surrogate halves as three bytes, 0xf5 and above) are refused; encoding/json takes
//     them and later replaces them;
//   - every refusal carries the byte offset of the fault and a short reason;
//   - the depth limit counts from the value that is cut, not from the document around it.
//
// It agrees with encoding/json on everything else: no byte order mark, no raw control characters in strings, lone surrogate
// escapes such as "\ud800" accepted (and kept), duplicate keys accepted, numbers of any size.
//
// It is not a decoder: Unquote is the only function that turns text into something else. Read scan.go for the grammar, cursor.go
// for walking objects and arrays.
package jsontext
