package session

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/key"
)

// The vectors were made without this package, by testdata/seal/make_vectors.py. A name
// that comes again, as "e" in INIT and RESP, has its section's first word in front.
func readVectors(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/seal/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	out, section := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		if rest, isTitle := strings.CutPrefix(line, "# "); isTitle {
			section, _, _ = strings.Cut(strings.Fields(rest)[0], ",")
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value, _, _ = strings.Cut(value, "#")
		b, err := hex.DecodeString(strings.TrimSpace(value))
		if err == nil {
			name = strings.TrimSpace(name)
			out[name], out[section+" "+name] = b, b
		}
	}
	return out
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	equal := func(what string, got []byte) {
		t.Helper()
		if want := v[what]; len(want) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", what, got, want)
		}
	}
	secretBytes := [32]byte(v["secret"])
	k := newSecret(key.Key{ID: key.IDOf(secretBytes), Secret: secretBytes})
	equal("psk", k.psk[:])
	equal("mac_key", k.mac[:])
	b := netip.MustParseAddrPort("192.0.2.7:7950")
	s := scope{"prod", b}
	alice, bob := parseLife(append(v["a_id"], v["a_life"]...)), parseLife(append(v["b_id"], v["b_life"]...))

	init, c, err := newCall(nil, bytes.NewReader(v["a_private"]), k, s, kindDatagrams, 1763800000000000001, alice)
	if err != nil {
		t.Fatal(err)
	}
	equal("init", init)
	equal("prologue", s.prologue(init))

	h, cause := parseHeader(init)
	found, cause2 := checkMAC(init, h, []*secret{k})
	if cause != CauseNone || cause2 != CauseNone || found != k {
		t.Fatalf("INIT is refused: %v, %v", cause, cause2)
	}
	r, cause := readInit(init, bytes.NewReader(v["b_private"]), h, k, s)
	if cause != CauseNone || r.peer != alice {
		t.Fatalf("INIT: %v, from %v", cause, r)
	}
	resp, index, atBob, err := r.answer(nil, bob)
	if err != nil {
		t.Fatal(err)
	}
	equal("resp", resp)
	who, remote, atAlice, cause := c.answered(resp)
	if cause != CauseNone || who != bob || remote != index {
		t.Fatalf("RESP: %v, from %v, index %x, want %x", cause, who, remote, index)
	}

	there := &session{remote: remote, Pair: atAlice, sent: 5}
	equal("data", there.seal(nil, []byte("\xb7\x1e and what a frame has")))
	back := &session{remote: c.index, Pair: atBob}
	hi := hello{true, b, []key.ID{k.id, 0x01020304}}
	equal("hello", back.seal(nil, hi.append(nil)))
	equal("unknown", appendUnknown(nil, c.index, h.number, []key.ID{0x01020304, 0x05060708}))

	out := atAlice.Out()
	equal("record", out.Seal(nil, []byte("a tether's preamble")))
}
