package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A message of an agent, its keeper or a holder is a datagram of at most MaxMessage bytes: JSON, as a
// rule, whose fields its reader all knows. What may be longer goes with it in one sealed file, of at
// most MaxFile bytes. Both lengths are looked at before anything is decoded.
const (
	// MaxMessage is far above what a message takes without its file. Arbitrary.
	MaxMessage = 64 << 10
	// MaxFile is room for ten thousand members. Arbitrary.
	MaxFile = 2 << 20
)

// Message is one that has come. Its bytes are the reader's until it asks for the next.
type Message struct {
	Text []byte
	File []byte // nil: none came
}

// Encode gives a message's text, of any length.
func Encode(message any) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		panic("BUG: encode message: " + err.Error()) // all of its values can be encoded
	}
	return text
}

var errTrailing = errors.New("more follows")

// Decode reads what Encode has written. A field that the message's type does not have is an error.
func Decode(text []byte, message any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(message); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("decode message: %w", errTrailing)
	}
	return nil
}
