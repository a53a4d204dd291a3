package sidecar

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair gives both ends of a line.
func pair(t *testing.T) (from, to *Conn) {
	t.Helper()
	from, to, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close(); to.Close() })
	return from, to
}

// drained gives what came, and why nothing more can.
func drained(c *Conn) (came []string, end error) {
	end = c.Drain(func(text []byte) (enough bool) {
		came = append(came, string(text))
		return false
	})
	return came, end
}

func TestMessagesComeAsTheyWereSent(t *testing.T) {
	from, to := pair(t)
	long, got := strings.Repeat("x", MaxMessage), []string(nil)
	want := []string{"{}", "a", long, "b"}
	sent := make(chan error, 1)
	go func() {
		var err error
		for _, text := range want {
			err = errors.Join(err, from.Send([]byte(text)))
		}
		sent <- errors.Join(err, from.Close())
	}()
	to.Wait(func() bool {
		came, end := drained(to)
		got = append(got, came...)
		return end != nil
	})
	if err := <-sent; err != nil || !slices.Equal(got, want) {
		t.Errorf("%.100q came, %v", got, err)
	}
	for _, text := range []string{"", long + "x"} {
		if err := from.Send([]byte(text)); err == nil {
			t.Errorf("%d bytes were sent", len(text))
		}
	}
}

// A message for which there is no room in time goes on where it was.
func TestAMessageGoesOn(t *testing.T) {
	from, to := pair(t)
	text := strings.Repeat("x", 3*pipeSize/2)
	from.Patience(time.Millisecond)
	if err := from.Send([]byte(text)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if came, end := drained(to); len(came) != 0 || end != nil {
		t.Errorf("%.100q came, %v", came, end)
	}
	from.Patience(time.Minute)
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(from.Resend(), from.Close()) }()
	var got []string
	to.Wait(func() bool {
		came, end := drained(to)
		got = append(got, came...)
		return end != nil
	})
	if err := <-sent; err != nil || len(got) != 1 || got[0] != text {
		t.Errorf("%.100q came, %v", got, err)
	}
}

// What is taken is enough at some time; the rest is there for the next time. The end comes after all that was sent, and what
// has no length of a message ends the line as well.
func TestTheEndOfALine(t *testing.T) {
	for name, last := range map[string][]byte{"closed": nil, "cut": {0, 0, 0, 2, 'c'}, "empty": {0, 0, 0, 0}, "long": {0, 0x20, 0, 1, 'c'}} {
		from, to := pair(t)
		for _, text := range []string{"a", "b"} {
			if err := from.Send([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := from.Out.Write(last); err != nil {
			t.Fatal(err)
		}
		from.Close()
		n := 0
		if err := to.Drain(func([]byte) bool { n++; return true }); n != 1 || err != nil {
			t.Errorf("%s: %d messages were taken, %v", name, n, err)
		}
		came, end := drained(to)
		isCut := name == "closed" || name == "cut"
		if !slices.Equal(came, []string{"b"}) || end == nil || errors.Is(end, ErrClosed) != isCut {
			t.Errorf("%s: %q came, %v", name, came, end)
		}
	}
}
