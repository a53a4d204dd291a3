package quorum

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func epoch(counter uint64, owner byte) wire.Epoch {
	return wire.Epoch{Counter: counter, Owner: id(owner)}
}

// A promise binds against all but the one that it was made to, until its end and
// takeover_delay more.
func TestAPromiseBindsAgainstOthers(t *testing.T) {
	var p Promise
	if got := p.BoundFor(id(1), time.Second, start); got != 0 {
		t.Errorf("bound to nobody for %v", got)
	}
	p.Bind(epoch(5, 2), start.Add(400*time.Millisecond))
	for _, c := range []struct {
		who         byte
		after, want time.Duration
	}{
		{2, 0, 0},
		{1, 0, 1400 * time.Millisecond},
		{1, 400 * time.Millisecond, time.Second},
		{1, 1399 * time.Millisecond, time.Millisecond},
		{1, 1400 * time.Millisecond, 0},
		{1, time.Hour, 0},
	} {
		if got := p.BoundFor(id(c.who), time.Second, start.Add(c.after)); got != c.want {
			t.Errorf("after %v bound against %d for %v, want %v", c.after, c.who, got, c.want)
		}
	}
}

// What its owner counts on is never shortened, be it under a newer epoch; another's
// promise takes its place as it is.
func TestAPromiseIsNotShortenedForItsOwner(t *testing.T) {
	for _, c := range []struct {
		name string
		then wire.Epoch
		want time.Duration
	}{
		{"the same epoch", epoch(5, 2), 2 * time.Second},
		{"a newer one of the same owner", epoch(6, 2), 2 * time.Second},
		{"another's", epoch(6, 3), time.Second},
	} {
		var p Promise
		p.Bind(epoch(5, 2), start.Add(2*time.Second))
		p.Bind(c.then, start.Add(time.Second))
		if got := p.Until.Sub(start); p.Epoch != c.then || got != c.want {
			t.Errorf("%s: to %v for %v, want %v", c.name, p.Epoch, got, c.want)
		}
	}
}

func TestAReleaseIsOfItsEpochOnly(t *testing.T) {
	var p Promise
	p.Bind(epoch(5, 2), start.Add(time.Second))
	for _, other := range []wire.Epoch{epoch(4, 2), epoch(6, 2), epoch(5, 3), {}} {
		if p.Release(other); p.Epoch != epoch(5, 2) {
			t.Fatalf("released by the end of %v", other)
		}
	}
	if p.Release(epoch(5, 2)); p != (Promise{}) {
		t.Errorf("left is %+v", p)
	}
}
