package lantest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// stream opens a stream that has said what it is for, and returns both ends.
func stream(t *testing.T, from, to *Host) (near, far net.Conn) {
	t.Helper()
	near, err := from.Dial(to.Addr(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Say(transport.Gossip)(near); err != nil {
		t.Fatal(err)
	}
	return near, <-to.taken
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := io.WriteString(c, text); n != len(text) || err != nil {
		t.Errorf("wrote %d bytes of %q: %v", n, text, err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Errorf("read %q, %v; want %q", b, err, want)
	}
}

// hearNothing waits a minute for what does not come.
func hearNothing(t *testing.T, c net.Conn) {
	t.Helper()
	begin := time.Now()
	_ = c.SetReadDeadline(begin.Add(time.Minute))
	n, err := c.Read(make([]byte, 16))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
		t.Errorf("read %d bytes, %v after %v; want a timeout after 1m", n, err, time.Since(begin))
	}
}

func hearEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 16)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v; want the end", n, err)
	}
}

func TestStreamCarriesBothWaysAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		near, far := stream(t, a, b)
		say(t, near, "ping")
		say(t, far, "pong") // both may write at once
		hear(t, near, "pong")
		hear(t, far, "ping")

		say(t, near, "last words")
		_ = near.Close()
		hear(t, far, "last words")
		hearEnd(t, far)
		if _, err := near.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if _, err := far.Write([]byte("more")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write to one who has closed: %v", err)
		}
	})
}

func TestCloseWakesItsOwnReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		near, _ := stream(t, a, b)
		ended := make(chan error)
		go func() {
			_, err := near.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		_ = near.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read ended with %v", err)
		}
	})
}

func TestDeadlineCanBeMovedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		near, _ := stream(t, a, b)
		begin := time.Now()
		time.AfterFunc(time.Second, func() { _ = near.SetDeadline(begin.Add(3 * time.Second)) })
		_, err := near.Read(make([]byte, 1))
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() || time.Since(begin) != 3*time.Second {
			t.Errorf("Read ended with %v after %v, want a timeout after 3s", err, time.Since(begin))
		}
	})
}

func TestDial(t *testing.T) {
	for _, c := range []struct {
		name  string
		fail  func(*LAN, *Host)
		want  error
		after time.Duration
	}{
		{"nobody there", func(_ *LAN, b *Host) { _ = b.Shutdown() }, syscall.ECONNREFUSED, 0},
		{"cut on the way there", func(l *LAN, _ *Host) { l.Cut("a", "b") }, os.ErrDeadlineExceeded, 5 * time.Second},
		{"cut on the way back", func(l *LAN, _ *Host) { l.Cut("b", "a") }, os.ErrDeadlineExceeded, 5 * time.Second},
		{"isolated", func(l *LAN, _ *Host) { l.Isolate("b") }, os.ErrDeadlineExceeded, 5 * time.Second},
		{"isolated and dead", func(l *LAN, b *Host) { l.Isolate("b"); _ = b.Shutdown() }, os.ErrDeadlineExceeded, 5 * time.Second},
		{"datagrams cut", func(l *LAN, _ *Host) { l.CutUDP("a", "b"); l.CutUDP("b", "a") }, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lan, a, b := pair(t)
				c.fail(lan, b)
				begin := time.Now()
				_, err := a.Dial(b.Addr(), 5*time.Second)
				if !errors.Is(err, c.want) || time.Since(begin) != c.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(begin), c.want, c.after)
				}
				if _, ok := err.(*net.OpError); err != nil && !ok {
					t.Errorf("%T: memberlist knows a failed dial by *net.OpError alone", err)
				}
			})
		})
	}
}

func TestShutdownEndsADialThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		lan.Isolate("b")
		begin := time.Now()
		time.AfterFunc(time.Second, func() { _ = a.Shutdown() })
		if _, err := a.Dial(b.Addr(), time.Hour); err == nil || time.Since(begin) != time.Second {
			t.Errorf("dial ended with %v after %v", err, time.Since(begin))
		}
		if _, err := a.Dial(a.Addr(), time.Hour); err == nil {
			t.Error("a host that is down opened a stream")
		}
	})
}

func TestCutStreamStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		near, far := stream(t, a, b)
		lan.Cut("a", "b")
		say(t, near, "lost") // the kernel takes it
		hearNothing(t, far)
		say(t, far, "the way back is whole")
		hear(t, near, "the way back is whole")

		lan.Heal()
		say(t, near, "out of sequence")
		hearNothing(t, far) // a stream with a hole in it must not go on
		_ = near.Close()
		hearNothing(t, far)
	})
}

func TestIdleStreamOutlivesACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		near, far := stream(t, a, b)
		lan.Isolate("a")
		time.Sleep(time.Minute)
		lan.Plug("a")
		say(t, near, "nobody noticed")
		hear(t, far, "nobody noticed")
	})
}

func TestDeathOfAHostEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		near, _ := stream(t, a, b)
		_ = b.Shutdown() // the process: its kernel says so
		hearEnd(t, near)

		b = plug(t, lan, "b", 2)
		serve(b)
		near, _ = stream(t, a, b)
		lan.Isolate("b") // the machine: nobody says anything
		_ = b.Shutdown()
		hearNothing(t, near)
	})
}

func TestStreamsThatNobodyTakesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		for range backlog {
			gossips(t, a, b.Addr())
		}
		hearEnd(t, gossips(t, a, b.Addr()))
	})
}
