// Package seal is encryption at rest: AES-256-GCM in the envelope of the wire contract (docs/formats.md section 10), under the one key that all
// nodes of a cluster share.
//
// A push is sealed when its command is prepared, before it is proposed, so what is stored is decided by the bytes of the command and not by
// who applies it. Sealing is random: nothing that has to come out the same twice (offsets, transaction ids, objects of the lake) looks at an
// envelope. Payloads are opened where bodies leave the broker (opening.go), once for every reader.
//
// It keeps no key but the one it is given, and says of it no more than its fingerprint. Which queues seal, and under whose key, is the state's:
// broker/state/push.go.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

const (
	// KeyBytes is the length of a key; it is written with twice as many hex digits.
	KeyBytes = 32
	// IVBytes is how many random bytes an envelope takes and stores. The first 12 of them are the nonce of GCM, the others are only stored.
	IVBytes = 16

	nonceBytes = 12
	tagBytes   = 16

	partText = `{"encrypted":"`
	partIV   = `","iv":"`
	partTag  = `","authTag":"`
	partEnd  = `"}`

	shortText = (IVBytes + 2) / 3 * 4 // 16 bytes in base64: iv and tag
	around    = len(partText) + len(partIV) + shortText + len(partTag) + shortText + len(partEnd)
)

// Fingerprint names a key and says nothing else about it; 0 names none.
type Fingerprint uint64

// String is 16 hex digits, empty for none.
func (f Fingerprint) String() string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(f))
}

// Key seals and opens. A nil Key is that of a node which was given none. It may be used by many goroutines.
type Key struct {
	aead  cipher.AEAD
	print Fingerprint
}

// ErrKey is what a key that cannot be read is refused with; the text never holds any of it.
var ErrKey = errors.New("is not 64 hex digits")

// ParseKey reads a key from its 64 hex digits.
func ParseKey(text string) (*Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != KeyBytes {
		return nil, ErrKey
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte("queen key fingerprint 1"))
	return &Key{aead: aead, print: Fingerprint(max(1, binary.BigEndian.Uint64(mac.Sum(nil))))}, nil
}

// Fingerprint names the key; it is 0 for a nil Key.
func (k *Key) Fingerprint() Fingerprint {
	if k == nil {
		return 0
	}
	return k.print
}

// String is the fingerprint, so that a key which ends up in a text shows no more than that.
func (k *Key) String() string { return k.Fingerprint().String() }

// Format writes String for every verb.
func (k *Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// MarshalText is String; encoding/json uses it too.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// SealedLen is the length of the envelope of so many bytes of payload.
func SealedLen(plain int) int { return around + base64.StdEncoding.EncodedLen(plain) }

// PlainLen is how many bytes of payload an envelope holds, which takes no key; ok is false for what does not have the form of an envelope.
func PlainLen(stored []byte) (n int, ok bool) {
	text, _, _, ok := split(stored)
	if !ok {
		return 0, false
	}
	n = len(text) / 4 * 3
	for i := 1; i <= 2 && i <= len(text) && text[len(text)-i] == '='; i++ {
		n--
	}
	return n, true
}

// Work is memory for one call after the other of one goroutine; its zero value is ready.
type Work struct{ buf []byte }

// Seal appends the envelope of a payload to dst. The iv must be random and never used again under this key.
func (k *Key) Seal(dst, plain []byte, iv [IVBytes]byte, w *Work) []byte {
	w.buf = append(w.buf[:0], iv[:]...)
	w.buf = k.aead.Seal(w.buf, w.buf[:nonceBytes], plain, nil)
	sealed, tag := w.buf[IVBytes:IVBytes+len(plain)], w.buf[IVBytes+len(plain):]
	dst = slices.Grow(dst, SealedLen(len(plain)))
	dst = base64.StdEncoding.AppendEncode(append(dst, partText...), sealed)
	dst = base64.StdEncoding.AppendEncode(append(dst, partIV...), w.buf[:IVBytes])
	dst = base64.StdEncoding.AppendEncode(append(dst, partTag...), tag)
	return append(dst, partEnd...)
}

// Open returns the payload of an envelope, which lies in w and is good until w is used again. ok is false when this key did not seal it, or
// when it is none.
func (k *Key) Open(stored []byte, w *Work) (plain []byte, ok bool) {
	text, iv, tag, ok := split(stored)
	if k == nil || !ok {
		return nil, false
	}
	w.buf = w.buf[:0]
	var err error
	for _, part := range [][]byte{iv, text, tag} {
		if w.buf, err = strict.AppendDecode(w.buf, part); err != nil {
			return nil, false
		}
	}
	if len(w.buf) < IVBytes+tagBytes {
		return nil, false
	}
	sealed := w.buf[IVBytes:]
	if plain, err = k.aead.Open(sealed[:0], w.buf[:nonceBytes], sealed, nil); err != nil {
		return nil, false
	}
	return plain, true
}

// strict takes one spelling of each text.
var strict = base64.StdEncoding.Strict()

// split cuts an envelope into its three base64 texts: of the sealed payload, of the iv and of the tag.
func split(stored []byte) (text, iv, tag []byte, ok bool) {
	n := len(stored) - around
	if n < 0 || n%4 != 0 {
		return nil, nil, nil, false
	}
	rest, ok := stored, true
	take := func(n int) (b []byte) {
		b, rest = rest[:n], rest[n:]
		return b
	}
	is := func(want string) { ok = string(take(len(want))) == want && ok }
	is(partText)
	text = take(n)
	is(partIV)
	iv = take(shortText)
	is(partTag)
	tag = take(shortText)
	is(partEnd)
	return text, iv, tag, ok
}
