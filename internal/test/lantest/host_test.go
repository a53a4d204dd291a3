package lantest

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

var _ transport.LAN = (*Host)(nil)

// address is the n-th host's.
func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 7950)
}

// pair is a LAN of two hosts with a constant delay, which ends with the bubble.
func pair(t *testing.T) (*LAN, *Host, *Host) {
	t.Helper()
	lan := New(1)
	lan.SetDelay(time.Millisecond, time.Millisecond)
	return lan, plug(t, lan, "a", 1), plug(t, lan, "b", 2)
}

func plug(t *testing.T, lan *LAN, name string, n int) *Host {
	t.Helper()
	h := lan.Host(name, address(n))
	t.Cleanup(func() { _ = h.Shutdown() })
	return h
}

// frame is one election frame as it arrived.
type frame struct {
	text string
	from netip.AddrPort
	at   time.Time
}

// drive calls ReadFrame until the host is shut down, as the agent does.
func drive(h *Host) *[]frame {
	frames := new([]frame)
	go func() {
		var b [256]byte
		for {
			n, from, err := h.ReadFrame(b[:])
			if err != nil {
				return
			}
			*frames = append(*frames, frame{string(b[1:n]), from, time.Now()})
		}
	}()
	return frames
}

func send(t *testing.T, from, to *Host, text string) {
	t.Helper()
	if err := from.SendFrame(to.Addr(), []byte("\xb7"+text)); err != nil {
		t.Fatal(err)
	}
}

// settle lets everything under way arrive.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// wantTexts compares what arrived, in any order.
func wantTexts(t *testing.T, got *[]frame, want ...string) {
	t.Helper()
	var texts []string
	for _, f := range *got {
		texts = append(texts, f.text)
	}
	slices.Sort(texts)
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Errorf("frames %q arrived, want %q", texts, want)
	}
}

func TestFramesArriveAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		got := drive(b)
		sent := time.Now()
		send(t, a, b, "hello")
		settle()
		wantTexts(t, got, "hello")
		if f := (*got)[0]; f.from != a.Addr() || f.at.Sub(sent) != time.Millisecond {
			t.Errorf("from %s after %v, want from %s after 1ms", f.from, f.at.Sub(sent), a.Addr())
		}
	})
}

func TestGossipComesOnlyWhileFramesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		if _, err := a.WriteTo([]byte("\x07gossip"), b.Addr().String()); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := len(b.PacketCh()); n != 0 {
			t.Fatalf("%d datagrams reached memberlist while nobody called ReadFrame", n)
		}
		got := drive(b)
		p := <-b.PacketCh()
		if string(p.Buf) != "\x07gossip" || p.From.String() != a.Addr().String() {
			t.Errorf("gossip %q from %s", p.Buf, p.From)
		}
		wantTexts(t, got)
	})
}

func TestWhatIsSentIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		got := drive(b)
		buf := []byte("\xb7one")
		_ = a.SendFrame(b.Addr(), buf)
		copy(buf, "\xb7two")
		_ = a.SendFrame(b.Addr(), buf)
		settle()
		wantTexts(t, got, "one", "two")
	})
}

// TestSenderNeverWaits is P18. Were it to wait, the bubble would end in a
// deadlock.
func TestSenderNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		begin := time.Now()
		for range inboxSize + 100 {
			send(t, a, b, "to one who does not read")
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("sending took %v", took)
		}
		settle()
		_ = b.Shutdown()
		send(t, a, b, "to one who is gone")
		settle()
		if n := len(b.inbox); n != inboxSize {
			t.Errorf("%d datagrams wait, want %d", n, inboxSize)
		}
	})
}

func TestShutdownEndsReadFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		ended := make(chan error)
		go func() {
			_, _, err := b.ReadFrame(nil)
			ended <- err
		}()
		synctest.Wait()
		_, _ = b.Shutdown(), b.Shutdown()
		if err := <-ended; err != net.ErrClosed {
			t.Errorf("ReadFrame ended with %v", err)
		}
		send(t, a, b, "late")
		settle()
		if _, _, err := b.ReadFrame(nil); err != net.ErrClosed {
			t.Errorf("ReadFrame after Shutdown: %v", err)
		}
		if err := b.SendFrame(a.Addr(), []byte{frameByte}); err == nil {
			t.Error("a host that is down sent a frame")
		}
	})
}

// TestRestartedHostGetsWhatWasUnderWay: the LAN knows addresses, not lives.
func TestRestartedHostGetsWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		lan.Cut("b", "a")
		send(t, a, b, "to the old life")
		_ = b.Shutdown()
		again := plug(t, lan, "b", 2)
		got := drive(again)
		_ = b.Shutdown() // the old life's second Shutdown does not touch the new one
		settle()
		wantTexts(t, got, "to the old life")

		heard := drive(a)
		send(t, again, a, "from the new life")
		settle()
		wantTexts(t, heard) // the cable is the host's, not the life's
	})
}

func TestAddressInUseIsAMistakeOfTheTest(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two running hosts got one address")
		}
	}()
	lan := New(1)
	lan.Host("a", address(1))
	lan.Host("b", address(1))
}

func TestCables(t *testing.T) {
	for _, c := range []struct {
		name string
		pull func(*LAN)
		lost []string // "from to" of the datagrams that do not arrive
	}{
		{"all whole", func(*LAN) {}, nil},
		{"one way", func(l *LAN) { l.Cut("a", "b") }, []string{"a b"}},
		{"one way, datagrams", func(l *LAN) { l.CutUDP("a", "b") }, []string{"a b"}},
		{"one way, all lost", func(l *LAN) { l.SetLinkLoss("a", "b", 1) }, []string{"a b"}},
		{"partition", func(l *LAN) { l.Partition([]string{"a"}, []string{"b", "c"}) }, []string{"a b", "a c", "b a", "c a"}},
		{"three parts", func(l *LAN) { l.Partition([]string{"a"}, []string{"b"}, []string{"c"}) }, []string{"a b", "a c", "b a", "b c", "c a", "c b"}},
		{"host of no part", func(l *LAN) { l.Partition([]string{"a"}, []string{"b"}) }, []string{"a b", "b a"}},
		{"isolated", func(l *LAN) { l.Isolate("c") }, []string{"a c", "b c", "c a", "c b"}},
		{"isolated and plugged in", func(l *LAN) { l.Isolate("c"); l.Plug("c") }, nil},
		{"healed", func(l *LAN) { l.Cut("a", "b"); l.CutUDP("b", "a"); l.Isolate("c"); l.Heal() }, nil},
		{"loss is not healed", func(l *LAN) { l.SetLinkLoss("a", "b", 1); l.Heal() }, []string{"a b"}},
		{"everything is lost", func(l *LAN) { l.SetLoss(1) }, []string{"a a", "a b", "a c", "b a", "b b", "b c", "c a", "c b", "c c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lan := New(1)
				c.pull(lan)
				hosts := []*Host{plug(t, lan, "a", 1), plug(t, lan, "b", 2), plug(t, lan, "c", 3)}
				if got := lostBetween(t, hosts); !slices.Equal(got, c.lost) {
					t.Errorf("lost %q, want %q", got, c.lost)
				}
			})
		})
	}
}

// lostBetween sends a frame from each host to each and names those that were
// lost.
func lostBetween(t *testing.T, hosts []*Host) []string {
	t.Helper()
	lost := make(map[string]bool)
	var heard []*[]frame
	for _, h := range hosts {
		heard = append(heard, drive(h))
	}
	for _, from := range hosts {
		for _, to := range hosts {
			lost[from.name+" "+to.name] = true
			send(t, from, to, from.name+" "+to.name)
		}
	}
	settle()
	for _, frames := range heard {
		for _, f := range *frames {
			delete(lost, f.text)
		}
	}
	return slices.Sorted(maps.Keys(lost))
}

func TestCutTakesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		got := drive(b)
		send(t, a, b, "under way")
		lan.Cut("a", "b")
		settle()
		wantTexts(t, got)
	})
}

func TestEveryFrameIsSeenBeforeItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		var seen []string
		lan.OnFrame(func(from, to netip.AddrPort, b []byte) {
			seen = append(seen, fmt.Sprintf("%s→%s %s", from.Addr(), to.Addr(), b[1:]))
		})
		lan.SetLoss(1)
		send(t, a, b, "one")
		_, _ = a.WriteTo([]byte("\x07gossip"), b.Addr().String())
		lan.SetLoss(0)
		lan.SetDuplicate(1)
		send(t, b, a, "two")
		want := []string{"192.0.2.1→192.0.2.2 one", "192.0.2.2→192.0.2.1 two"}
		if !slices.Equal(seen, want) {
			t.Errorf("saw %q, want %q", seen, want)
		}
		lan.OnFrame(nil)
		send(t, a, b, "nobody looks")
	})
}

// weather sends n numbered frames under the given conditions and returns what
// arrived.
func weather(t *testing.T, seed uint64, n int, set func(*LAN)) []frame {
	t.Helper()
	var got []frame
	synctest.Test(t, func(t *testing.T) {
		lan := New(seed)
		a, b := plug(t, lan, "a", 1), plug(t, lan, "b", 2)
		set(lan)
		frames := drive(b)
		for i := range n {
			send(t, a, b, fmt.Sprintf("%04d", i))
		}
		settle()
		got = *frames
	})
	return got
}

func TestLossIsAsOftenAsAsked(t *testing.T) {
	lossy := func(l *LAN) { l.SetLoss(0.1); l.SetLinkLoss("a", "b", 0.2) }
	got := len(weather(t, 7, 1000, lossy))
	if want := 720; got < want-60 || got > want+60 { // four standard deviations
		t.Errorf("%d of 1000 arrived, want about %d", got, want)
	}
}

func TestDuplicatesAreAsOftenAsAsked(t *testing.T) {
	got := len(weather(t, 7, 1000, func(l *LAN) { l.SetDuplicate(0.1) }))
	if want := 1100; got < want-40 || got > want+40 {
		t.Errorf("%d arrived of 1000, want about %d", got, want)
	}
}

func TestDelayIsWithinItsBoundsAndReorders(t *testing.T) {
	const least, most = 2 * time.Millisecond, 12 * time.Millisecond
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble
	var sum time.Duration
	frames := weather(t, 7, 1000, func(l *LAN) { l.SetDelay(least, most) })
	for _, f := range frames {
		took := f.at.Sub(start)
		if took < least || took > most {
			t.Fatalf("frame %s took %v, want %v to %v", f.text, took, least, most)
		}
		sum += took
	}
	if mean := sum / time.Duration(len(frames)); mean < 6500*time.Microsecond || mean > 7500*time.Microsecond {
		t.Errorf("mean delay %v, want about 7ms", mean)
	}
	if slices.IsSortedFunc(frames, func(a, b frame) int { return strings.Compare(a.text, b.text) }) {
		t.Error("no frame overtook another")
	}
}

func TestSameSeedSameWeather(t *testing.T) {
	storm := func(l *LAN) {
		l.SetLoss(0.2)
		l.SetDuplicate(0.2)
		l.SetDelay(0, 50*time.Millisecond)
	}
	first, second, other := weather(t, 7, 300, storm), weather(t, 7, 300, storm), weather(t, 8, 300, storm)
	if !slices.Equal(first, second) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(first, other) {
		t.Error("two seeds give the same run")
	}
}
