package session

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
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
	alice, bob := vectorHost(v["a_key"], v["a_life"]), vectorHost(v["b_key"], v["b_life"])
	equal("a_id", alice.life.ID[:])
	equal("b_id", bob.life.ID[:])

	init, c, err := newCall(nil, bytes.NewReader(v["a_private"]), k, s, kindDatagrams, 1, alice, cookie{})
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
	asked, err := appendCookie(nil, bytes.NewReader(v["nonce"]), k, h, init, cookie(v["cookie"]))
	if err != nil {
		t.Fatal(err)
	}
	equal("cookie_msg", asked)
	if got, cause := c.openCookie(asked); cause != CauseNone || got != cookie(v["cookie"]) {
		t.Errorf("COOKIE: %v, %x", cause, got)
	}
	equal("signature", cookie(v["cookie"]).sign(init[:handshakeSize-cookieSize]))

	r, cause := readInit(init, bytes.NewReader(v["b_private"]), h, k, s, bob)
	if cause != CauseNone {
		t.Fatalf("INIT: %v", cause)
	}
	resp, err := r.answer(nil)
	if err != nil {
		t.Fatal(err)
	}
	equal("resp", resp)
	who, remote, cause := c.answered(resp)
	if cause != CauseNone || who != bob.life || remote != r.index {
		t.Fatalf("RESP: %v, from %v, index %x, want %x", cause, who, remote, r.index)
	}
	proof, atAlice, err := c.prove(nil, remote, append(bytes.Clone(v["said"]), "\xb7\x1e and what a frame has"...))
	if err != nil {
		t.Fatal(err)
	}
	equal("proof", proof)
	who, payload, atBob, err := r.proven(proof)
	if err != nil || who != alice.life {
		t.Fatalf("PROOF: %v, from %v", err, who)
	}
	if hi, rest, ok := cutHello(payload); !ok || !bytes.Equal(hi, v["said"]) || string(rest) != "\xb7\x1e and what a frame has" {
		t.Errorf("PROOF carries %x and %x", hi, rest)
	}

	there := &session{remote: remote, Pair: atAlice, sent: 5}
	equal("data", there.seal(nil, []byte("\xb7\x1e and what a frame has")))
	back := &session{remote: c.index, Pair: atBob}
	said := hello{true, netip.MustParseAddrPort("192.0.2.6:7950"), []key.ID{k.id}, 0, card{3, v["card"]}, vectorReceipt(v["a_key"], 7), shownReceipt(v["b_key"], 0x101), listOf(t, alice.life.ID, bob.life.ID).Digest()}
	equal("said", said.append(nil))
	hi := hello{true, b, []key.ID{k.id, 0x01020304}, 3, card{}, vectorReceipt(v["b_key"], 0x102), shownReceipt(v["a_key"], 7), 0}
	equal("hello", back.seal(nil, hi.append(nil)))
	equal("refused", back.seal(nil, refused{500 * time.Millisecond, listOf(t, bob.life.ID).Digest()}.append(nil)))
	equal("unknown", appendUnknown(nil, c.index, h.number, []key.ID{0x01020304, 0x05060708}))

	out := atAlice.Out()
	equal("record", out.Seal(nil, []byte("a tether's preamble")))
}

func vectorHost(private, life []byte) hostKey {
	h := newHostKey(X25519, identity.FromBytes([identity.Size]byte(private)), 0, [8]byte{})
	h.life = parseLife(h.life.ID, life)
	return h
}

func vectorReceipt(private []byte, incarnation uint32) identity.Receipt {
	return identity.FromBytes([identity.Size]byte(private)).Receipt(incarnation)
}

func shownReceipt(private []byte, incarnation uint32) Receipt {
	return Receipt{Incarnation: incarnation, Text: vectorReceipt(private, incarnation)}
}
