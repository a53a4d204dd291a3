package netlab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// nic is a host's end of a wire: what is put into send comes out of the others' got.
type nic struct {
	address byte
	send    chan []byte
	closed  chan struct{}
	once    sync.Once

	mu  sync.Mutex
	got []string // the payloads, with the time since the start of the bubble
}

var bubbleBegin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newNIC(address byte) *nic {
	return &nic{address: address, send: make(chan []byte), closed: make(chan struct{})}
}

func (i *nic) Read(b []byte) (int, error) {
	select {
	case frame := <-i.send:
		return copy(b, frame), nil
	case <-i.closed:
		return 0, io.EOF
	}
}

func (i *nic) Write(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = append(i.got, fmt.Sprintf("%s %v", b[leastFrame:], time.Since(bubbleBegin)))
	return len(b), nil
}

func (i *nic) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// to sends a frame; 0xff is everybody.
func (i *nic) to(address byte, payload string) {
	destination := slices.Repeat([]byte{address}, 6)
	source := slices.Repeat([]byte{i.address}, 6)
	i.send <- slices.Concat(destination, source, []byte{0x88, 0xb5}, []byte(payload))
}

// heard is what arrived so far, once nothing is under way any more.
func (i *nic) heard() string {
	time.Sleep(time.Second) // of the bubble's time
	synctest.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	text := strings.Join(i.got, ", ")
	i.got = nil
	return text
}

func TestWireSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(Weather{Delay: 5 * time.Millisecond})
		a, b, c := newNIC(1), newNIC(2), newNIC(3)
		jacks := []*jack{w.attach(a), w.attach(b), w.attach(c)}
		expect := func(what string, i *nic, want string) {
			t.Helper()
			if got := i.heard(); got != want {
				t.Errorf("%s: host %d heard %q, want %q", what, i.address, got, want)
			}
		}
		a.to(0xff, "all")
		a.to(2, "unknown")
		expect("everywhere", b, "all 5ms, unknown 5ms")
		expect("everywhere", c, "all 5ms, unknown 5ms")
		expect("not to oneself", a, "")
		b.to(1, "known")
		expect("only there", c, "")
		expect("only there", a, "known 3.005s")
		jacks[1].connect(nowhere)
		a.to(2, "cut")
		b.to(1, "cut")
		expect("cut", a, "")
		expect("cut", b, "")
		jacks[1].connect(mainPart)
		a.to(2, "back")
		expect("plugged in", b, "back 7.005s")
		jacks[1].connect(splitPart)
		jacks[2].connect(splitPart)
		a.to(0xff, "split")
		b.to(3, "same part")
		expect("split", b, "")
		expect("split", c, "same part 8.005s")
		jacks[1].connect(mainPart)
		jacks[2].connect(mainPart)
		a.send <- []byte("runt")
		expect("too short for a frame", b, "")
		w.close()
	})
}

func TestWireLosesAsOftenAsAsked(t *testing.T) {
	count := func(w Weather) (n int) {
		synctest.Test(t, func(t *testing.T) {
			wire := newWire(w)
			a, b := newNIC(1), newNIC(2)
			wire.attach(a)
			wire.attach(b)
			for range 1000 {
				a.to(2, "x")
			}
			n = strings.Count(b.heard(), "x")
			wire.close()
		})
		return n
	}
	if n := count(Weather{}); n != 1000 {
		t.Errorf("in fine weather %d of 1000 frames arrived", n)
	}
	n := count(Weather{Loss: 0.2, Seed: 1})
	if n < 750 || n > 850 { // four standard deviations
		t.Errorf("at 20 %% loss %d of 1000 frames arrived", n)
	}
	if again := count(Weather{Loss: 0.2, Seed: 1}); again != n {
		t.Errorf("the same seed let %d frames pass, and then %d", n, again)
	}
}

func TestWireDelaysWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(Weather{Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: 1})
		a, b := newNIC(1), newNIC(2)
		w.attach(a)
		w.attach(b)
		for i := range 200 {
			a.to(2, fmt.Sprintf("%03d", i))
		}
		lines := strings.Split(b.heard(), ", ")
		w.close()
		if len(lines) != 200 {
			t.Fatalf("%d of 200 frames arrived", len(lines))
		}
		var least, most time.Duration = time.Hour, 0
		for _, line := range lines {
			_, text, _ := strings.Cut(line, " ")
			d, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			least, most = min(least, d), max(most, d)
		}
		if least < 10*time.Millisecond || least > 12*time.Millisecond || most > 30*time.Millisecond || most < 28*time.Millisecond {
			t.Errorf("delays from %v to %v, want 10 ms to 30 ms", least, most)
		}
		if slices.IsSorted(lines) {
			t.Error("no frame overtook another")
		}
	})
}

// Nobody reads: what is too much is lost, and the wire goes on.
func TestWireQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(Weather{Delay: time.Hour})
		a, b := newNIC(1), newNIC(2)
		w.attach(a)
		to := w.attach(b)
		for range 3 * mostWaiting {
			a.to(2, "x")
		}
		time.Sleep(2 * time.Hour) // of the bubble's time
		if n := strings.Count(b.heard(), "x"); n < mostWaiting || n > 2*mostWaiting {
			t.Errorf("%d frames arrived in the end, want %d to %d", n, mostWaiting, 2*mostWaiting)
		}
		if len(to.arrived) != 0 {
			t.Errorf("%d frames still wait", len(to.arrived))
		}
		w.close()
	})
}
