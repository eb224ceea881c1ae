package config

import (
	"fmt"
	"io"
)

// Secret is a string that never shows itself: its String, Go, JSON and text forms are stars, whatever the verb. The one way
// to the value is Reveal, so that a search for it finds every place that uses one.
type Secret string

const stars = "***"

var (
	_ fmt.Formatter  = Secret("")
	_ fmt.Stringer   = Secret("")
	_ fmt.GoStringer = Secret("")
)

// Reveal returns the value, for the request signer and for nothing else.
func (s Secret) Reveal() string { return string(s) }

// Set tells whether there is a value.
func (s Secret) Set() bool { return s != "" }

// String returns stars.
func (s Secret) String() string { return stars }

// GoString returns stars.
func (s Secret) GoString() string { return stars }

// Format writes stars for every verb, %x and %q included.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, stars) }

// MarshalText returns stars; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(stars), nil }
