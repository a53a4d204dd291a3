package wire

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The vectors were made without this package, by testdata/wire/make_vectors.py.
func TestWillVectors(t *testing.T) {
	hashes := map[WillHash]bool{}
	for _, line := range readLines(t, "will.txt") {
		column := strings.Split(line, " | ")
		number := func(i int) uint64 {
			n, err := strconv.ParseUint(column[i], 0, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
		secret, commitment := Secret(unhex(t, column[0])), Commitment(unhex(t, column[1]))
		if got := secret.Commit(); got != commitment {
			t.Errorf("%s\ncommitment %x", line, got)
		}
		e := Epoch{Counter: number(3), Owner: mustID(t, column[4])}
		hash := commitment.Hash(uint32(number(2)), e, uint32(number(5)), uint32(number(6)))
		if hash != WillHash(unhex(t, column[7])) {
			t.Errorf("%s\nhash %x", line, hash)
		}
		hashes[hash] = true
		datagram := unhex(t, column[8])
		if got := AppendWill([]byte("before"), secret)[len("before"):]; !bytes.Equal(got, datagram) || len(got) != WillSize {
			t.Errorf("%s\ndatagram %x", line, got)
		}
		if got, ok := ParseWill(datagram); !ok || got != secret {
			t.Errorf("%s\nparsed as %x, %t", line, got[:], ok)
		}
	}
	if len(hashes) < 8 {
		t.Errorf("%d different hashes", len(hashes))
	}
}

// What is no will of this version is none, and a will is no frame.
func TestWhatIsNoWill(t *testing.T) {
	will := AppendWill(nil, Secret{1, 2, 3})
	changed := func(at int, b byte) []byte {
		out := bytes.Clone(will)
		out[at] = b
		return out
	}
	for what, b := range map[string][]byte{"nothing": nil, "cut": will[:WillSize-1], "longer": append(bytes.Clone(will), 0), "a frame": changed(1, Magic1),
		"of version 2": changed(2, 0x20), "of version 4": changed(2, 0x40), "gossip": changed(0, 12)} {
		if _, ok := ParseWill(b); ok {
			t.Errorf("%s is taken for a will: %x", what, b)
		}
	}
	for what, b := range map[string][]byte{"minor 1": changed(2, 0x31), "bytes that have no meaning yet": changed(9, 7)} {
		if s, ok := ParseWill(b); !ok || s != (Secret{1, 2, 3}) {
			t.Errorf("with %s: %x, %t", what, s[:], ok)
		}
	}
	var f Frame
	if err := Parse(will, &f); err != ErrShort {
		t.Errorf("as a frame: %v", err)
	}
}

// No log has a secret, however it prints it.
func TestASecretIsNotShown(t *testing.T) {
	s := Secret{0xab, 0xcd}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, s)} {
		if strings.Contains(text, "171") || strings.Contains(text, "ab") {
			t.Errorf("shown as %q", text)
		}
	}
}
