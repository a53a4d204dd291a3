package sealed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
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

// Who has not said which keys it has is called with each of the ring in turn.
func TestS12_KeysAreTriedInTurn(t *testing.T) {
	r := newRig(t, 0)
	r.add(1, testKey(3))
	r.add(2, testKey(1), testKey(2), testKey(3))
	r.say(2, 1, "it is me")
	r.run(time.Second)
	r.host(1).got = nil // it may have waited for too long
	r.say(2, 1, "with the third")
	r.run(time.Second)
	r.expect(1, "n2: with the third")
}

// So is it on streams, which is all that a host that joins begins with.
func TestS12_StreamsTryKeysInTurn(t *testing.T) {
	called := wrap(t, lantest.New(1).Host("n1", at(1)), 1, testKey(3))
	defer func() { _ = called.Shutdown() }()
	calls := wrap(t, lantest.New(2).Host("n2", at(2)), 2, testKey(1), testKey(2), testKey(3))
	defer func() { _ = calls.Shutdown() }()
	for i, want := range []error{errNotOurs, errNotOurs, nil} {
		near, far := net.Pipe()
		accepted := make(chan error, 1)
		go func() {
			_, err := called.Accept(at9{far})
			if err != nil {
				_ = far.Close()
			}
			accepted <- err
		}()
		conn, err := calls.call(at9{near}, kindStream, netip.AddrPort{})
		if !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i+1, err, want)
		}
		if err == nil {
			_, _ = conn.Write([]byte("hello"))
		}
		if err := <-accepted; (err == nil) != (want == nil) {
			t.Errorf("call %d is taken: %v", i+1, err)
		}
		_, _ = near.Close(), far.Close()
		calls.locked(func(t *table, now time.Time) { t.tick(now) }) // which forgets what is of no more use
	}
}

// Of the sessions that were replaced few still receive, however often a peer begins anew.
func TestS6_ReplacedSessionsAreBounded(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	caller := r.host(1)
	begun := caller.opened
	const times = 5 * maxLosers
	for range times {
		caller.only(t).cur.renewAt = r.now
		r.say(1, 2, "anew")
		caller.wake(r.now)
		r.run(time.Second)
	}
	if n := caller.opened - begun; n != times {
		t.Fatalf("%d sessions were begun, want %d", n, times)
	}
	for _, h := range r.hosts {
		if p := h.only(t); len(p.losers) != maxLosers || len(h.byIndex) != maxLosers+1 {
			t.Errorf("%s keeps %d that were replaced, of %d in all; want %d, and one more", h.name, len(p.losers), len(h.byIndex), maxLosers)
		}
	}
}

// The INIT of one kind opens nothing of another: at the port for datagrams none of a stream or
// a tether is answered, and one for datagrams that is played to a stream is still taken at its own.
func TestS2_AnInitOpensItsOwnKind(t *testing.T) {
	r := newRig(t, 1)
	k, who := newSecret(testKey(1)), identity{id: testID(9)}
	number := uint64(r.now.UnixNano())
	init := func(kd kind, to netip.AddrPort) []byte {
		number++
		b, _, err := newCall(nil, r.rand, k, scope{"home", to}, kd, number, who)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stream, tether, datagrams := init(kindStream, netip.AddrPort{}), init(kindTether, at(1)), init(kindDatagrams, at(1))
	r.quietly(1, func(h *host) {
		for _, b := range [][]byte{stream, tether} {
			if cause := h.hear(r.now, at(9), b); cause != CauseType {
				t.Errorf("kind %d at the port for datagrams: %v", b[3], cause)
			}
		}
	})
	l := newTestLAN(t)
	defer func() { _ = l.Shutdown() }()
	if _, err := l.Accept(&played{in: bytes.NewReader(datagrams)}); !errors.Is(err, CauseType) {
		t.Errorf("one for datagrams on a stream: %v", err)
	}
	l.locked(func(own *table, now time.Time) {
		if _, _, cause := own.receive(now, at(9), datagrams); cause != causeNone {
			t.Errorf("the same at its own port: %v", cause)
		}
	})
}

// A life that is met at the address of an earlier one has taken its place: nothing of that is kept.
func TestS8_ALaterLifeEndsTheOneBefore(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	later := r.add(1, testKey(1))
	r.say(1, 2, "again")
	r.run(time.Second)
	r.expect(2, "n1: again")
	if p := r.host(2).only(t); p.life != later.self.life {
		t.Errorf("the life that is kept is %x, want %x", p.life, later.self.life)
	}
}

// A life numbers its INITs from above those of the lives before: what was captured of these is
// known by that.
func TestS3_ALifeBeginsAboveThoseBefore(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a := c.add(1, testKey(1))
		number := func() (n uint64) {
			a.locked(func(t *table, _ time.Time) { n = t.number })
			return n
		}
		first := number()
		_ = a.SendFrame(at(9), frameOf(1)) // nobody is there, so it is called again
		time.Sleep(3 * time.Second)
		last := number()
		if last <= first {
			t.Fatalf("no INIT was sent after number %d", first)
		}
		a.Renew([8]byte{2}, at(1))
		if next := number(); next <= last {
			t.Errorf("the next life begins with %d, and the one before came to %d", next, last)
		}
	})
}

// What others do again and again is one line a minute.
func TestPeopleAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		l, err := Wrap(lantest.New(1).Host("n1", at(1)), Config{Cluster: "home", ID: testID(1), Life: [8]byte{1}, Keys: key.Ring{testKey(1)},
			Logger: hclog.New(&hclog.LoggerOptions{Output: &said})})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Shutdown() }()
		for minute := 1; minute <= 2; minute++ {
			for range 100 {
				l.locked(func(t *table, _ time.Time) { t.note(CauseKey, at(9), nil, nil) })
			}
			if n := strings.Count(said.String(), "not taken"); n != minute {
				t.Errorf("%d lines in %d minutes", n, minute)
			}
			time.Sleep(time.Minute)
		}
	})
}
