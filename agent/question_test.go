package agent

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

func sane() answer {
	return answer{ID: wire.ID{7}.String(), Version: "v1.2.3 (devel)", Asked: 1, Answered: 2, Source: "10.0.0.1"}
}

// What no agent says is not taken, whoever says it.
func TestAnswersAreChecked(t *testing.T) {
	if err := sane().check(wire.ID{7}); err != nil {
		t.Fatalf("an honest one is refused: %v", err)
	}
	for name, spoil := range map[string]func(*answer){
		"another id":    func(a *answer) { a.ID = wire.ID{8}.String() },
		"no id":         func(a *answer) { a.ID = strings.Repeat("x", 4000) },
		"escape":        func(a *answer) { a.Version = "\x1b[2J" },
		"line":          func(a *answer) { a.Knock = "no\nanswer" },
		"right to left": func(a *answer) { a.Version = "\u202e" },
		"long":          func(a *answer) { a.Version = strings.Repeat("v", 100) },
		"long reason":   func(a *answer) { a.Knock = strings.Repeat("v", 200) },
		"back in time":  func(a *answer) { a.Answered = 0 },
		"source":        func(a *answer) { a.Source = "evil" },
		"MTU":           func(a *answer) { a.MTU = -1 },
		"no address":    func(a *answer) { a.Addresses = "10.0.0.9 evil" },
		"zone":          func(a *answer) { a.Addresses = "fe80::1%\x1b[2J" },
		"many":          func(a *answer) { a.Addresses = strings.Repeat("10.0.0.9 ", 300) + "10.0.0.9" },
	} {
		a := sane()
		spoil(&a)
		if err := a.check(wire.ID{7}); err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.ContainsAny(err.Error(), "\x1b\n\u202e") || len(err.Error()) > 200 {
			t.Errorf("%s: the refusal repeats it: %q", name, err)
		}
	}
}

// Only a member at its own address is pinged and dialled, whoever names another.
func TestAQuestionMovesNobodyToDialElsewhere(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:7950")
	known := []membership.Member{{ID: wire.ID{7}, Addr: at}}
	if _, ok := (question{ID: wire.ID{7}.String(), Addr: "10.0.0.1:7950"}).asker(known); !ok {
		t.Error("a member is not known")
	}
	for _, q := range []question{{ID: wire.ID{7}.String(), Addr: "192.0.2.1:7950"}, {ID: wire.ID{8}.String(), Addr: "10.0.0.1:7950"}, {}} {
		if _, ok := q.asker(known); ok {
			t.Errorf("%+v is taken for a member", q)
		}
	}
}

// Whatever comes, no more than 4 KiB of it is read, and what is said comes back as it was.
func FuzzListen(f *testing.F) {
	var b bytes.Buffer
	_ = say(&b, sane(), largeWords)
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, '{'})
	f.Add([]byte{0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var a answer
		err := listen(r, &a)
		if read := len(in) - r.Len(); read > 2+maxWords {
			t.Fatalf("%d bytes were read", read)
		}
		if err != nil || a.check(wire.ID{7}) != nil {
			return
		}
		var out bytes.Buffer
		var again answer
		if err := say(&out, a, 0); err != nil || listen(&out, &again) != nil || again != a {
			t.Fatalf("%+v comes back as %+v, %v", a, again, err)
		}
	})
}

// Answers are bounded at a time, and for one host in time.
func TestAnswersAreBounded(t *testing.T) {
	var g answers
	now := time.Unix(1000, 0)
	for i := range maxAnswers {
		if !g.begin(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), now) {
			t.Fatalf("answer %d is refused", i)
		}
	}
	if g.begin(netip.MustParseAddr("10.1.0.1"), now) {
		t.Error("one more is given than there are places")
	}
	g.end()
	if g.begin(netip.AddrFrom4([4]byte{10, 0, 0, 0}), now.Add(answerPause/2)) {
		t.Error("one host is answered again at once")
	}
	if !g.begin(netip.AddrFrom4([4]byte{10, 0, 0, 0}), now.Add(answerPause)) {
		t.Error("it is never answered again")
	}
	if len(g.last) != 1 {
		t.Errorf("%d hosts are remembered", len(g.last))
	}
}
