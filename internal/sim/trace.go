package sim

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// digest is a running hash over what a run does: equal digests mean equal runs.
// It is no cryptography; eight bytes at a time cost less than a frame's checksum.
type digest uint64

func (h *digest) mix(v uint64) {
	x := (uint64(*h) ^ v) * 0x9e3779b97f4a7c15
	*h = digest(x ^ x>>29)
}

func (h *digest) bytes(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		h.mix(binary.LittleEndian.Uint64(b))
	}
	for _, c := range b {
		h.mix(uint64(c))
	}
}

func (h *digest) transition(now int64, number int, e *election.Transition) {
	h.mix(uint64(now))
	h.mix(uint64(number)<<32 | uint64(e.From)<<16 | uint64(e.To))
	h.mix(e.Epoch.Counter)
	h.bytes([]byte(e.Cause))
}

// named puts n1, n2, … in the place of ids and addresses.
func (w *World) named(text string) string {
	for i := len(w.machines) - 1; i >= 0; i-- {
		m := w.machines[i]
		text = strings.ReplaceAll(text, m.id.Short(), fmt.Sprintf("n%d", m.number))
	}
	return text
}

// sayFrame writes down a datagram; heartbeats and their acknowledgements are the
// noise of every trace and are left out.
func (w *World) sayFrame(m *machine, sign string, other *machine, f *wire.Frame) {
	if w.trace == nil || (f.Kind == wire.Heartbeat || f.Kind == wire.HeartAck) && !w.traceBeats {
		return
	}
	text := f.String()
	if _, body, ok := strings.Cut(text, " from="); ok {
		_, body, _ = strings.Cut(body, " ")
		text = f.Kind.String() + " " + body
	}
	w.say(m, "%s n%d %s", sign, other.number, text)
}
