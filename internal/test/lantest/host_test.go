package lantest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// address is the n-th host's.
func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 7950)
}

// pair is a LAN of two hosts with a constant delay, which ends with the bubble.
func pair(t *testing.T) (*LAN, *Host, *Host) {
	t.Helper()
	lan := New(1)
	lan.SetDelay(time.Millisecond, time.Millisecond)
	a, b := plug(t, lan, "a", 1), plug(t, lan, "b", 2)
	serve(a, b)
	return lan, a, b
}

func plug(t *testing.T, lan *LAN, name string, n int) *Host {
	t.Helper()
	h := lan.Host(name, address(n))
	t.Cleanup(func() { _ = h.Shutdown() })
	return h
}

// serve has hosts accept streams.
func serve(hosts ...*Host) {
	for _, h := range hosts {
		h.Serve(Hear)
	}
}

func TestContract(t *testing.T) {
	Contract(t, func(t *testing.T, part func(*testing.T, Open)) {
		synctest.Test(t, func(t *testing.T) {
			lan, n := New(1), 0
			part(t, func(t *testing.T) transport.LAN {
				n++
				return plug(t, lan, string(rune('a'+n)), n)
			})
		})
	})
}

// datum is one datagram as it arrived.
type datum struct {
	text string
	from netip.AddrPort
	at   time.Time
}

// drive calls Read until the host is shut down, as the agent does.
func drive(h *Host) *[]datum {
	got := new([]datum)
	go func() {
		var b [256]byte
		for {
			n, from, err := h.Read(b[:])
			if err != nil {
				return
			}
			*got = append(*got, datum{string(b[:n]), from, time.Now()})
		}
	}()
	return got
}

func send(t *testing.T, from, to *Host, text string) {
	t.Helper()
	if err := from.Send(to.Addr(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// settle lets everything under way arrive.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// wantTexts compares what arrived, in any order.
func wantTexts(t *testing.T, got *[]datum, want ...string) {
	t.Helper()
	var texts []string
	for _, f := range *got {
		texts = append(texts, f.text)
	}
	slices.Sort(texts)
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Errorf("datagrams %q arrived, want %q", texts, want)
	}
}

func TestDatagramsArriveAfterTheDelay(t *testing.T) {
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

func TestWhatIsSentIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		got := drive(b)
		buf := []byte("one")
		_ = a.Send(b.Addr(), buf)
		copy(buf, "two")
		_ = a.Send(b.Addr(), buf)
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

// lostBetween sends a datagram from each host to each and names those that were
// lost.
func lostBetween(t *testing.T, hosts []*Host) []string {
	t.Helper()
	lost := make(map[string]bool)
	var heard []*[]datum
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
	for _, got := range heard {
		for _, f := range *got {
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

func TestAllThatIsSentIsHeardBeforeItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		var heard []string
		lan.OnBytes(func(s Sent) {
			heard = append(heard, fmt.Sprintf("%s→%s %s", s.From.Addr(), s.To.Addr(), s.Data))
		})
		lan.SetLoss(1)
		send(t, a, b, "one")
		lan.SetLoss(0)
		lan.SetDuplicate(1)
		send(t, b, a, "two")
		want := []string{"192.0.2.1→192.0.2.2 one", "192.0.2.2→192.0.2.1 two"}
		if !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
		lan.OnBytes(nil)
		send(t, a, b, "nobody listens")
	})
}

// weather sends n numbered datagrams under the given conditions and returns what
// arrived.
func weather(t *testing.T, seed uint64, n int, set func(*LAN)) []datum {
	t.Helper()
	var got []datum
	synctest.Test(t, func(t *testing.T) {
		lan := New(seed)
		a, b := plug(t, lan, "a", 1), plug(t, lan, "b", 2)
		set(lan)
		arrived := drive(b)
		for i := range n {
			send(t, a, b, fmt.Sprintf("%04d", i))
		}
		settle()
		got = *arrived
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
	arrived := weather(t, 7, 1000, func(l *LAN) { l.SetDelay(least, most) })
	for _, f := range arrived {
		took := f.at.Sub(start)
		if took < least || took > most {
			t.Fatalf("datagram %s took %v, want %v to %v", f.text, took, least, most)
		}
		sum += took
	}
	if mean := sum / time.Duration(len(arrived)); mean < 6500*time.Microsecond || mean > 7500*time.Microsecond {
		t.Errorf("mean delay %v, want about 7ms", mean)
	}
	if slices.IsSortedFunc(arrived, func(a, b datum) int { return strings.Compare(a.text, b.text) }) {
		t.Error("no datagram overtook another")
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
