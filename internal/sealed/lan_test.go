package sealed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

func newTestLAN(t testing.TB) *LAN {
	t.Helper()
	return wrap(t, lantest.New(1).Host("n1", at(1)), 1, testKey(1))
}

func wrap(t testing.TB, below transport.LAN, n int, keys ...key.Key) *LAN {
	t.Helper()
	l, err := Wrap(below, Config{Cluster: "home", Key: testHost(n), Life: [8]byte{byte(n)}, Keys: keys, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// meant is the life of a host of a bubble.
func meant(n int) session.Meant {
	return session.Meant{ID: testID(n), Nonce: uint32(n) << 24, Addr: at(n)}
}

// port is one sealed host of a bubble, with what it has read.
type port struct {
	*LAN
	below  *lantest.Host
	frames chan string // sender and address
}

func (c *lab) add(n int, keys ...key.Key) *port {
	p := &port{below: c.lan.Host(string('a'+rune(n)), at(n)), frames: make(chan string, 100)}
	p.LAN = wrap(c.t, p.below, n, keys...)
	go func() {
		b := make([]byte, wire.MaxFrame+1)
		for {
			n, from, err := p.ReadFrame(b)
			if err != nil {
				return
			}
			var f wire.Frame
			if err := wire.Parse(b[:n], &f); err != nil {
				c.t.Errorf("read a frame that does not parse: %v", err)
			}
			p.frames <- f.Sender.Short() + " " + from.String()
		}
	}()
	c.ports = append(c.ports, p)
	return p
}

// lab is a LAN in memory with sealed hosts.
type lab struct {
	t     *testing.T
	lan   *lantest.LAN
	ports []*port
}

func inLab(t *testing.T, f func(t *testing.T, c *lab)) {
	synctest.Test(t, func(t *testing.T) {
		c := &lab{t: t, lan: lantest.New(1)}
		f(t, c)
		for _, p := range c.ports {
			_ = p.Shutdown()
		}
		time.Sleep(10 * time.Second)
	})
}

func frameOf(n int) []byte {
	f := wire.Frame{Kind: wire.Heartbeat, Sender: testID(n), Nonce: uint32(n) << 24}
	return wire.Append(nil, &f)
}

// expect waits a second and checks the frames that were read since the last time.
func (p *port) expect(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(time.Second)
	var got []string
	for len(p.frames) > 0 {
		got = append(got, <-p.frames)
	}
	if len(got) != len(want) {
		t.Fatalf("read %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("read %q, want %q", got[i], want[i])
		}
	}
}

func TestFramesAndGossipAreSealed(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		if err := a.SendFrame(at(2), frameOf(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.WriteToAddress([]byte("\x05gossip"), memberlist.Address{Addr: at(2).String()}); err != nil {
			t.Fatal(err)
		}
		b.expect(t, testID(1).Short()+" "+at(1).String())
		select {
		case p := <-b.PacketCh():
			if string(p.Buf) != "\x05gossip" || p.From.String() != at(1).String() {
				t.Errorf("gossip %q from %v", p.Buf, p.From)
			}
		default:
			t.Error("gossip did not arrive")
		}
		if err := a.SendFrame(at(2), make([]byte, session.MaxInner+1)); !errors.Is(err, session.CauseLength) {
			t.Errorf("a frame that does not fit: %v", err)
		}
	})
}

func TestPlainFrameIsNotReadCase4(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a := c.add(1, testKey(1))
		stranger := c.lan.Host("stranger", at(9))
		_ = stranger.Send(at(1), frameOf(2))
		a.expect(t)
		if n := a.Report().Dropped["plain"]; n != 1 {
			t.Errorf("%d plain frames counted, want 1", n)
		}
	})
}

func TestPlainGossipNeverReachesMemberlistCase5(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a := c.add(1, testKey(1))
		stranger := c.lan.Host("stranger", at(9))
		for first := range 256 {
			_ = stranger.Send(at(1), []byte{byte(first), 1, 2, 3})
		}
		time.Sleep(time.Second)
		select {
		case p := <-a.PacketCh():
			t.Errorf("memberlist gets %x", p.Buf)
		default:
		}
	})
}

func TestPlainStreamIsClosedUnreadCase6(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a := c.add(1, testKey(1))
		stranger := c.lan.Host("stranger", at(9))
		for _, first := range []byte{6 /* push/pull */, 244 /* a label */, 0xB7} {
			conn, err := stranger.Dial(at(1), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(append([]byte{first}, make([]byte, 200)...))
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a plain stream that begins with %#x: %v, want it closed", first, err)
			}
		}
		select {
		case <-a.StreamCh():
			t.Error("memberlist gets a plain stream")
		default:
		}
	})
}

// The same on sockets.
func TestPlainStreamOnSocketsCase6(t *testing.T) {
	below, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	l := wrap(t, below, 1, testKey(1))
	defer func() { _ = l.Shutdown() }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(append([]byte{6}, make([]byte, 200)...))
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a plain stream: %v, want it closed", err)
	}
	select {
	case <-l.StreamCh():
		t.Error("memberlist gets a plain stream")
	default:
	}
}

func TestStreamsCarryWhatWasWritten(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		conn, err := a.DialAddressTimeout(memberlist.Address{Addr: at(2).String()}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.Repeat([]byte("list of members "), 10_000)
		if _, err := conn.Write(text); err != nil {
			t.Fatal(err)
		}
		far := <-b.StreamCh()
		got := make([]byte, len(text))
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %v", len(got), err)
		}
		_ = far.Close()
		if _, err := conn.Read(got); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// tapped notes what a dialled stream says.
type tapped struct {
	net.Conn
	said *bytes.Buffer
}

func (c tapped) Write(b []byte) (int, error) {
	c.said.Write(b)
	return c.Conn.Write(b)
}

// What was captured of a stream's and of a tether's beginning is played again: neither
// is proven.
func TestReplayedStreamAndTetherCase30(t *testing.T) {
	l := newTestLAN(t)
	defer func() { _ = l.Shutdown() }()
	for _, kd := range []session.Kind{session.KindStream, session.KindTether, session.KindQuestion} {
		dialler := wrap(t, lantest.New(2).Host("n2", at(2)), 2, testKey(1))
		near, far := net.Pipe()
		var said bytes.Buffer
		proven := make(chan error, 1)
		go func() {
			_, _, err := l.Accept(at9{far})
			proven <- err
		}()
		var to session.Meant
		if kd != session.KindStream {
			to = meant(1)
		}
		if _, err := dialler.call(at9{tapped{near, &said}}, kd, to); err != nil {
			t.Fatal(err)
		}
		if err := <-proven; err != nil {
			t.Fatalf("the true one is refused: %v", err)
		}
		for range 3 {
			if _, _, err := l.Accept(&played{in: bytes.NewReader(said.Bytes())}); err == nil {
				t.Errorf("kind %d: a replay was proven", kd)
			}
		}
		// INIT of one kind is not that of the other.
		other := bytes.Clone(said.Bytes())
		other[3] = byte(kd%session.KindQuestion + 1)
		if _, _, err := l.Accept(&played{in: bytes.NewReader(other)}); err == nil {
			t.Errorf("kind %d was taken for another", kd)
		}
		_ = dialler.Shutdown()
	}
}

// A stream is taken once who dialled has proved itself, and not for its INIT: each bit of PROOF matters.
func TestAStreamIsTakenForItsProof(t *testing.T) {
	l := newTestLAN(t)
	defer func() { _ = l.Shutdown() }()
	for _, bit := range []int{-1, 0, 35, 8 * 4, 8 * 16, 8 * 50, 8*session.ProofSize - 1} {
		init, c, err := newTestTable(9).CallStream(at(1), session.KindStream, session.Meant{})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		taken := make(chan error, 1)
		go func() {
			_, _, err := l.Accept(at9{far})
			taken <- err
		}()
		var resp [session.HandshakeSize]byte
		_, _ = near.Write(init)
		if _, err := io.ReadFull(near, resp[:]); err != nil {
			t.Fatal(err)
		}
		_, proof, _, cause := c.Answered(resp[:])
		if cause != session.CauseNone {
			t.Fatal(cause)
		}
		if bit >= 0 {
			proof[bit/8] ^= 1 << (bit % 8)
		}
		_, _ = near.Write(proof)
		if err := <-taken; (err == nil) != (bit < 0) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
		_, _ = near.Close(), far.Close()
	}
}

// What a host takes back while a stream begins, its key or its life, takes the stream back.
func TestS14_AStreamOutlivesNoKeyAndNoLife(t *testing.T) {
	for name, change := range map[string]func(l *LAN){
		"nothing": func(*LAN) {},
		"key":     func(l *LAN) { l.SetKeys(key.Ring{testKey(2)}) },
		"life":    func(l *LAN) { l.Renew(2, [8]byte{2}, at(1)) },
	} {
		l := newTestLAN(t)
		near, far := net.Pipe()
		taken := make(chan error, 1)
		go func() {
			_, _, err := l.Accept(at9{far})
			taken <- err
		}()
		init, c, err := newTestTable(9).CallStream(at(1), session.KindStream, session.Meant{})
		if err != nil {
			t.Fatal(err)
		}
		var resp [session.HandshakeSize]byte
		_, _ = near.Write(init)
		if _, err := io.ReadFull(near, resp[:]); err != nil {
			t.Fatal(err)
		}
		change(l)
		_, proof, _, _ := c.Answered(resp[:])
		_, _ = near.Write(proof)
		if err := <-taken; (err == nil) != (name == "nothing") {
			t.Errorf("%s taken back by who accepts: %v", name, err)
		}
		_, _ = near.Close(), far.Close()
		_ = l.Shutdown()
	}
}

// Who seals by another version is told so on a stream, too, which is all that a host that
// joins begins with: people of both read which version each has.
func TestAnotherVersionOnAStream(t *testing.T) {
	var said bytes.Buffer
	l, err := Wrap(lantest.New(1).Host("n1", at(1)), Config{Cluster: "home", Key: testHost(1), Life: [8]byte{1}, Keys: key.Ring{testKey(1)},
		Logger: hclog.New(&hclog.LoggerOptions{Output: &said})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Shutdown() }()
	later := func(b []byte) []byte {
		b[2] += 1 << 4
		return b
	}
	expect := func(end string) {
		t.Helper()
		if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "upgrade the older of the two: cause=version") ||
			!strings.Contains(text, "ours=2 theirs=3") {
			t.Errorf("%s said %q, expected one line with both versions", end, text)
		}
		said.Reset()
		l.told = map[matter]time.Time{} // a minute later
	}

	init, _, _ := newTestTable(9).CallStream(at(1), session.KindStream, session.Meant{})
	answered := &played{in: bytes.NewReader(later(init))}
	if _, _, err := l.Accept(answered); err == nil {
		t.Error("a stream of another version was proved")
	}
	expect("who was called")
	if !bytes.HasPrefix(answered.out, []byte{0xb7, 0x5e}) || len(answered.out) > len(init) {
		t.Fatalf("it answered %x", answered.out)
	}

	// Its answer tells the other of this one's version, in whose eyes it is another.
	near, far := net.Pipe()
	go func() {
		_, _ = io.ReadFull(far, make([]byte, session.HandshakeSize))
		_, _ = far.Write(later(answered.out))
		_ = far.Close()
	}()
	if _, err := l.call(at9{near}, session.KindStream, session.Meant{}); !errors.Is(err, errVersion) {
		t.Errorf("a call to another version: %v", err)
	}
	expect("who called")
	if n := l.Report().Dropped["version"]; n != 2 {
		t.Errorf("%d counted, want 2", n)
	}
}

// at9 gives a pipe an address.
type at9 struct{ net.Conn }

func (at9) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(at(9)) }

// A tether to who cannot prove itself, or proves to be another life than is meant: its end is no evidence.
func TestUnprovenTetherIsNoEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		key   key.Key
		meant session.Meant
	}{
		"a stranger":             {testKey(2), meant(2)},
		"another host":           {testKey(1), session.Meant{ID: testID(3), Nonce: 2 << 24, Addr: at(2)}},
		"another life of a host": {testKey(1), session.Meant{ID: testID(2), Nonce: 1 << 24, Addr: at(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, lab *lab) {
				a := lab.add(1, testKey(1))
				other := lab.add(2, c.key)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ends sync.WaitGroup
				ends.Go(func() {
					a.Tether(ctx, c.meant, func() { t.Error("lost") }, func() { t.Error("refused") })
				})
				time.Sleep(5 * time.Second)
				_ = other.Shutdown()
				time.Sleep(5 * time.Second)
				cancel()
				ends.Wait()
				if n := a.Report().Dropped["life"]; (n > 0) != (name != "a stranger") {
					t.Errorf("%d streams of another life are counted", n)
				}
			})
		})
	}
}

func TestProvenTetherIsEvidence(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lost := make(chan struct{}, 1)
		var ends sync.WaitGroup
		ends.Go(func() {
			a.Tether(ctx, meant(2), func() { lost <- struct{}{} }, func() {})
		})
		time.Sleep(5 * time.Second)
		select {
		case <-lost:
			t.Error("lost while it lives")
		default:
		}
		_ = b.Shutdown()
		time.Sleep(time.Second)
		select {
		case <-lost:
		default:
			t.Error("not lost when its process has ended")
		}
		cancel()
		ends.Wait()
	})
}

// holdOf opens a tether from one host to another, and says once it has ended.
func (p *port) holdOf(t *testing.T, n int) (ended *atomic.Bool) {
	t.Helper()
	conn, err := p.below.Dial(at(n), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	held, err := p.call(conn, session.KindTether, meant(n))
	if err != nil {
		t.Fatal(err)
	}
	ended = new(atomic.Bool)
	go func() {
		_, _ = held.Read(make([]byte, 1))
		ended.Store(true)
	}()
	return ended
}

// held counts the tethers that are open at a host.
func (p *port) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tethers)
}

// A tether under a key that is removed ends, whichever end removes it, and another one stays. Who has the removed key alone would else
// hold its place, and see the process end, for as long as that runs.
func TestS12_ATetherUnderARemovedKeyEnds(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		thief, member, leader := c.add(2, testKey(1)), c.add(3, testKey(2)), c.add(1, testKey(1), testKey(2))
		byThief, byMember, toThief := thief.holdOf(t, 1), member.holdOf(t, 1), leader.holdOf(t, 2)
		time.Sleep(time.Second)
		if byThief.Load() || byMember.Load() || toThief.Load() || leader.held() != 3 {
			t.Fatalf("%d tethers are held before a key is removed", leader.held())
		}
		leader.SetKeys(key.Ring{testKey(2)})
		time.Sleep(time.Second)
		if !byThief.Load() || !toThief.Load() || byMember.Load() || leader.held() != 1 {
			t.Errorf("under the removed key have ended: the thief's %v, the one to the thief %v; under the other key %v; %d are held",
				byThief.Load(), toThief.Load(), byMember.Load(), leader.held())
		}
	})
}

// That a key was removed is no evidence against a leader, and the tether under the next key is evidence as the one before was.
func TestS12_ATetherOutlivesARotation(t *testing.T) {
	for name, first := range map[string]int{"the leader first": 0, "the follower first": 1} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, c *lab) {
				hosts := []*port{c.add(1, testKey(1), testKey(2)), c.add(2, testKey(1), testKey(2))}
				leader, follower := hosts[0], hosts[1]
				_ = leader.SendFrame(at(2), frameOf(1)) // they have a session, and know each other's keys
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var lost atomic.Int32
				var ends sync.WaitGroup
				ends.Go(func() { follower.Tether(ctx, meant(1), func() { lost.Add(1) }, func() {}) })
				time.Sleep(5 * time.Second)
				for _, p := range []*port{hosts[first], hosts[1-first]} {
					p.SetKeys(key.Ring{testKey(2)})
					time.Sleep(5 * time.Second)
					if lost.Load() != 0 || leader.held() != 1 || follower.held() != 1 {
						t.Errorf("lost %d times; %d tethers are held there, %d here", lost.Load(), leader.held(), follower.held())
					}
				}
				for s, held := range leader.tethers {
					if held.under != testKey(2).ID || held.whose != testID(2) {
						t.Errorf("%v is held under %v", s, held.under)
					}
				}
				_ = leader.Shutdown()
				time.Sleep(time.Second)
				if lost.Load() != 1 {
					t.Errorf("lost %d times when its process has ended", lost.Load())
				}
				cancel()
				ends.Wait()
			})
		})
	}
}

// A tether of a host that is taken out of the host list ends, and those of others stay.
func TestS20_TheTetherOfAHostThatIsOutEnds(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a := c.add(1, testKey(1))
		out, stays := c.add(2, testKey(1)).holdOf(t, 1), c.add(3, testKey(1)).holdOf(t, 1)
		time.Sleep(time.Second)
		list, err := identity.MakeHosts([]identity.Host{{Name: "n1", ID: testID(1)}, {Name: "n3", ID: testID(3)}})
		if err != nil {
			t.Fatal(err)
		}
		a.SetHosts(list, wire.ID{}, time.Second, true)
		time.Sleep(time.Second)
		if !out.Load() || stays.Load() || a.held() != 1 {
			t.Errorf("the tether of the host that is out has ended: %v, of the other one: %v; %d are held", out.Load(), stays.Load(), a.held())
		}
	})
}

// A member that speaks in another's name is not heard, and it is said who did it.
func TestFrameOfAnotherSenderCase36(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		_ = a.SendFrame(at(2), frameOf(3))
		_ = a.SendFrame(at(2), frameOf(1)[:frameSender+8])
		_ = a.SendFrame(at(2), frameOf(1))
		b.expect(t, testID(1).Short()+" "+at(1).String())
		if n := b.Report().Dropped["sender"]; n != 2 {
			t.Errorf("%d frames of another sender counted, want 2", n)
		}
	})
}

// S11: nor is one life heard that speaks for another of its own host.
func TestS11_AFrameOfAnotherLife(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		for _, place := range []int{frameIncarnation, frameNonce} {
			f := frameOf(1)
			f[place]++
			_ = a.SendFrame(at(2), f)
		}
		_ = a.SendFrame(at(2), frameOf(1))
		b.expect(t, testID(1).Short()+" "+at(1).String())
		if n := b.Report().Dropped["sender"]; n != 2 {
			t.Errorf("%d frames of another life counted, want 2", n)
		}
	})
}

func TestReportSaysWhoHasWhichKeys(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1), testKey(2)), c.add(2, testKey(1))
		_ = a.SendFrame(at(2), frameOf(1))
		b.expect(t, testID(1).Short()+" "+at(1).String())
		if p := b.Report().Peers; len(p) != 1 || p[0].ID != testID(1) || len(p[0].Keys) != 2 || p[0].InUse[0] != testKey(1).ID {
			t.Errorf("n2 says of n1: %+v", p)
		}
		if p := a.Report().Peers; len(p) != 1 || len(p[0].Keys) != 1 || p[0].Addr != at(2) {
			t.Errorf("n1 says of n2: %+v", p)
		}
	})
}

// A host shows its card to those who watch, without the lock: who is told may ask and say something.
func TestS16_TheWatcherIsToldWithoutTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, c *lab) {
		a, b := c.add(1, testKey(1)), c.add(2, testKey(1))
		told := make(chan string, 10)
		a.Watch(func(s session.Shown) {
			a.SetCard([]byte("a has met " + string(s.Card)))
			told <- s.Addr.String() + " " + string(s.Card)
		})
		b.Watch(func(s session.Shown) { told <- s.Addr.String() + " " + string(s.Card) })
		b.SetCard([]byte("b"))
		a.Ask(at(2))
		time.Sleep(time.Second)
		for _, want := range []string{"10.0.0.2:7950 b", "10.0.0.1:7950 a has met b"} {
			select {
			case got := <-told:
				if got != want {
					t.Errorf("told %q, expected %q", got, want)
				}
			default:
				t.Errorf("nobody is told %q", want)
			}
		}
		if !a.HasSaid() || !b.HasSaid() {
			t.Error("a card is not acknowledged")
		}
		a.ShowAgain(testID(2))
		b.Ask(at(1))
		time.Sleep(time.Second)
		if got := <-told; got != "10.0.0.2:7950 b" {
			t.Errorf("told %q of one who is to be shown again", got)
		}
	})
}
