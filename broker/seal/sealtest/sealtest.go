// Package sealtest has the keys of tests of sealed queues. It is for tests alone.
package sealtest

import (
	"testing"

	"queen/broker/seal"
)

// Text is a key as a setting has it, and Other another one.
const (
	Text  = "00" + rest
	Other = "ff" + rest

	rest = "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// Key is the key of a text.
func Key(t testing.TB, text string) *seal.Key {
	t.Helper()
	k, err := seal.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
