package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A message of an agent, its keeper or a holder has at most MaxMessage bytes: JSON, as a rule, whose fields its reader all knows.
// Its length is looked at before anything is decoded.

// MaxMessage is room for ten thousand members. Arbitrary.
const MaxMessage = 2 << 20

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
	d.UseNumber() // a float64 has not all digits of an epoch
	if err := d.Decode(message); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("decode message: %w", errTrailing)
	}
	return nil
}
