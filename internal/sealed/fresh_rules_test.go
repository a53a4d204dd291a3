package sealed

import (
	"io"
	"net"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// Rules that a reader took out one at a time, without having read the tests, and that
// nothing noticed.

// A write that takes several records says how much it wrote in all.
func TestALongWriteIsCounted(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	aead, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	const long = 3*maxRecord + 1
	if n, err := newStream(ours, pair{aead, aead}).Write(make([]byte, long)); n != long || err != nil {
		t.Errorf("wrote %d of %d bytes: %v", n, long, err)
	}
}

// Of the lives of one host few are kept: whoever has its id and the key makes up no more.
func TestLivesOfOneHostAreBounded(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	for i := range 5 * maxLives {
		if _, cause := h.peer(r.now, identity{testID(2), [8]byte{byte(i)}}); cause != causeNone {
			t.Fatalf("life %d: %v", i, cause)
		}
	}
	if n := len(h.peers); n != maxLives {
		t.Errorf("%d lives of one host are kept, want %d", n, maxLives)
	}
}
