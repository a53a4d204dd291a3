package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// TestTheSameCallsSendTheSame: six hosts that keep sessions, lose a key and get another send the same datagrams each time, byte
// for byte and in one order.
func TestTheSameCallsSendTheSame(t *testing.T) {
	play := func() (tape []byte) {
		r := newRig(t, 6)
		for _, h := range r.hosts {
			for i := range r.hosts {
				r.say(int(h.at.Addr().As4()[3]), i+1, "hello")
			}
		}
		r.run(3 * time.Second)
		for _, h := range r.hosts {
			h.SetKeys(r.now, key.Ring{testKey(2), testKey(1)})
		}
		r.run(30 * time.Second)
		for _, p := range r.tape {
			tape = append(tape, p.b...)
		}
		return tape
	}
	first := play()
	for range 5 {
		if again := play(); !bytes.Equal(first, again) {
			t.Fatalf("%d bytes were sent, and then %d others", len(first), len(again))
		}
	}
}
