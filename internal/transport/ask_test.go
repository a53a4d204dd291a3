package transport

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
)

// A question reaches who answers. The place at the gate is free afterwards.
func TestQuestionsAreAnswered(t *testing.T) {
	asker, other := listenTethers(t), listenTethers(t)
	if conn, err := asker.Ask(t.Context(), other.Addr(), say(Question)); err == nil { // nobody answers yet
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			t.Error("nobody answers, and something comes")
		}
		_ = conn.Close()
	}
	other.Answer(func(_ context.Context, conn net.Conn) {
		defer conn.Close()
		b := make([]byte, 4)
		if _, err := io.ReadFull(conn, b); err == nil {
			_, _ = conn.Write(append(b, '!'))
		}
	})
	conn, err := asker.Ask(t.Context(), other.Addr(), say(Question))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("hear"))
	if answer, err := io.ReadAll(conn); string(answer) != "hear!" || err != nil {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	_ = conn.Close()
	eventually(t, "no place is taken", func() bool { return open(other) == 0 })

	if err := asker.Knock(t.Context(), other.Addr()); err != nil {
		t.Errorf("knock: %v", err)
	}
	_ = other.Shutdown()
	if err := asker.Knock(t.Context(), other.Addr()); err == nil {
		t.Error("who is gone opens")
	}
}

// Datagrams are counted by their source while somebody looks, and only then.
func TestLookCountsDatagrams(t *testing.T) {
	a, b := listenTethers(t), listenTethers(t)
	go func() {
		for buf := make([]byte, 100); ; {
			if _, _, err := b.Read(buf); err != nil {
				return
			}
		}
	}()
	seen, stop := b.Look(netip.MustParseAddr("127.0.0.1"))
	none, stopNone := b.Look(netip.MustParseAddr("127.0.0.2"))
	for range 3 {
		if err := a.Send(b.Addr(), []byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three datagrams are seen", func() bool { return seen() == 3 })
	if stop(); none() != 0 {
		t.Errorf("%d from an address that sends none", none())
	}
	stopNone()
	if b.datagrams.looks.now.Load() != nil {
		t.Error("somebody looks still")
	}
}
