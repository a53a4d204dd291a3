package places

import (
	"net"
	"testing"
)

func TestShares(t *testing.T) {
	p := New[string](3, 2)
	var leave []func()
	for i, tt := range []struct {
		source string
		want   bool
	}{{"one", true}, {"one", true}, {"one", false}, {"two", true}, {"two", false}, {"three", false}} {
		l, ok := p.Enter(tt.source)
		if ok != tt.want {
			t.Errorf("%d: %s let in: %v", i, tt.source, ok)
		}
		if ok {
			leave = append(leave, l)
		}
	}
	for _, l := range leave {
		l()
		l() // frees no other's place
	}
	if p.taken != 0 || len(p.of) != 0 {
		t.Errorf("all have left, and %d places are taken, of %v", p.taken, p.of)
	}
	if _, ok := p.Enter("three"); !ok {
		t.Error("a place that is free again stays taken")
	}
}

// A connection that is closed twice, as net/http may, has given its place back once.
func TestAPlaceIsGivenBackByClose(t *testing.T) {
	p := New[int](2, 2)
	open := func() net.Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		leave, ok := p.Enter(7)
		if !ok {
			t.Fatal("no place")
		}
		return Conn(ours, leave)
	}
	first, second := open(), open()
	_ = first.Close()
	_ = first.Close()
	if p.taken != 1 {
		t.Errorf("one of two is closed, and %d places are taken", p.taken)
	}
	_ = second.Close()
	if p.taken != 0 {
		t.Errorf("both are closed, and %d places are taken", p.taken)
	}
}
