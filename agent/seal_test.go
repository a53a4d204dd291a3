package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/wire"
)

func sealKey(n byte) key.Key {
	k := key.Key{Secret: sha256.Sum256([]byte{n})}
	k.ID = key.IDOf(k.Secret)
	return k
}

// newSealedCluster has agents with one key.
func newSealedCluster(t *testing.T, n int) *cluster {
	c := newCluster(t, n)
	for _, h := range c.hosts {
		h.settings = func(cfg *Config) { cfg.Keys = key.Ring{sealKey(1)} }
	}
	return c
}

// The usual life of a cluster, sealed: the best leads, dies, is replaced, comes back,
// takes over, and hands over when it is stopped.
func TestSealedClusterElectsAndFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot")
		time.Sleep(5 * time.Second)
		if s := low.agent.Status(); !strings.HasSuffix(s.Encryption, "(1 of 1), 3 of 3 hosts") {
			t.Errorf("encryption is %q", s.Encryption)
		}

		c.kill(top)
		c.agrees(mid)
		mid.expectHooks(t, "become-leader 2 process-gone")

		c.start(top)
		c.agrees(top)
		mid.expectHooks(t, "become-leader 2 process-gone", "lose-leadership 2 preempted")

		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		top.agent = nil
		c.agrees(mid)
		low.expectHooks(t)
		c.stopAll()
	})
}

// Three machines have one state directory and a key. One leads, the others are started together, and
// the third ends at once, since it meets the first. The second's datagrams to the first are lost
// meanwhile. They meet as soon as these arrive, whatever was heard of the third: it ends, too.
func TestCopiesWithAKeyLeadOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		first, second, third := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) {
				cfg.Keys, cfg.Seeds = key.Ring{sealKey(1)}, []string{first.addr.String(), second.addr.String(), third.addr.String()}
			}
		}
		c.start(first)
		c.agrees(first)
		for _, h := range c.hosts[1:] {
			copyState(t, first.dir, h.dir)
		}
		c.lan.CutUDP(first.name, second.name)
		c.lan.CutUDP(second.name, first.name)
		c.start(second)
		time.Sleep(time.Millisecond)
		c.start(third)
		time.Sleep(10 * time.Millisecond) // both have heard the third by now, whose numbers are higher than theirs
		c.lan.Heal()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for _, h := range c.hosts[1:] {
				select {
				case <-h.done:
					h.agent = nil
				default:
				}
				if h.agent != nil && h.agent.Status().LeaderIsSelf {
					t.Errorf("%s leads beside %s", h.name, first.name)
					end = time.Now()
				}
			}
		}
		if c.leader() != first {
			t.Errorf("%s leads no more", first.name)
		}
		first.expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}

// Case 69: keys are replaced in three steps, one host after the other, and nobody loses
// the leadership or a member.
func TestRotationChangesNoLeaderCase69(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		top := c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		time.Sleep(30 * time.Second)
		before, now := sealKey(1), sealKey(2)
		for _, ring := range []key.Ring{{before, now}, {now, before}, {now}} {
			for _, h := range c.hosts {
				h.agent.call(nil, func() { h.agent.takeKeys(keyring{ring: ring}) })
				time.Sleep(3 * time.Second)
			}
			time.Sleep(90 * time.Second)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot")
		for _, h := range c.hosts {
			for _, e := range eventsOf(h) {
				if e.Type == "member" && e.Cause != "joined" {
					t.Errorf("%s saw %q", h.name, e.Text)
				}
			}
			for _, p := range h.agent.seal.Report().Peers {
				if len(p.InUse) != 1 || p.InUse[0] != now.ID || len(p.Keys) != 1 || p.Keys[0] != now.ID {
					t.Errorf("%s: with %s keys %v are in use, and it has %v", h.name, p.Addr, p.InUse, p.Keys)
				}
			}
		}
		c.stopAll()
	})
}

func eventsOf(h *testHost) []control.Event {
	events, _ := h.agent.Events(0)
	return events
}

// told keeps the lines of a log.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (w *told) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, string(b))
	return len(b), nil
}

// count is how many lines have all of these words.
func (w *told) count(words ...string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.lines {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			n++
		}
	}
	return n
}

// strangers runs two sealed agents and a third with other keys for three minutes: it
// becomes no member, and people are told, once a minute at most. It gives what the first
// and the third said, and what status notes on the second and on the third.
func strangers(t *testing.T, third key.Ring) (inside, outside *told, notes [2]string) {
	inside, outside = &told{}, &told{}
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		for i, w := range []*told{inside, nil, outside} {
			settings := c.hosts[i].settings
			c.hosts[i].settings = func(cfg *Config) {
				settings(cfg)
				if w != nil {
					cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: w})
				}
				if i == 2 {
					cfg.Keys = third
				}
			}
		}
		for _, h := range c.hosts {
			c.start(h)
		}
		time.Sleep(3 * time.Minute)
		if !c.hosts[1].agent.Status().LeaderIsSelf || !c.hosts[2].agent.Status().LeaderIsSelf {
			t.Error("the two, or the one, have no leader of their own")
		}
		for i, want := range []int{2, 2, 1} {
			if s := c.hosts[i].agent.Status(); s.Members != want {
				t.Errorf("%s has %d members, want %d", c.hosts[i].name, s.Members, want)
			}
		}
		for i, h := range c.hosts[1:] {
			notes[i] = strings.Join(h.agent.Status().Notes, "\n")
		}
		for _, h := range c.hosts {
			h.stop()
			<-h.done
			h.agent = nil
		}
		c.stopAll()
	})
	return inside, outside, notes
}

func TestNoKeyAgainstAClusterCase1(t *testing.T) {
	inside, _, notes := strangers(t, nil)
	if !strings.Contains(notes[1], "a host at 10.0.0.1:7950 has a key (id "+sealKey(1).ID.String()+"), and this host has none: ") {
		t.Errorf("the stranger's status does not say what it lacks: %s", notes[1])
	}
	if !strings.Contains(notes[0], "a host at 10.0.0.3:7950 has no key, and this host has "+sealKey(1).ID.String()+": ") {
		t.Errorf("a member's status does not say what the stranger lacks: %s", notes[0])
	}
	if n := inside.count("not taken: this host has a key, and the other has none"); n < 1 || n > 4 {
		t.Errorf("%d lines in three minutes, want one a minute:\n%s", n, strings.Join(inside.lines, ""))
	}
}

// A member comes back without its key: the others look for it, and it says that they have
// one, once a minute, and in its status too.
func TestBackWithoutAKeyCase1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		back, w := c.hosts[2], &told{}
		c.agrees(back)
		c.kill(back)
		settings := back.settings
		back.settings = func(cfg *Config) {
			settings(cfg)
			cfg.Keys, cfg.Logger = nil, hclog.New(&hclog.LoggerOptions{Output: w})
		}
		c.start(back)
		time.Sleep(3 * time.Minute)
		s := back.agent.Status()
		if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, ":7950 has a key (id "+sealKey(1).ID.String()+"), and this host has none") {
			t.Errorf("the notes are %s", notes)
		}
		if n := w.count("not taken: the other host has a key, and this one has none", "addr=10.0.0."); n < 4 || n > 8 { // for each of two hosts
			t.Errorf("%d lines in three minutes, want one a minute and host:\n%s", n, strings.Join(w.lines, ""))
		}
		c.stopAll()
	})
}

func TestWrongKeyCase2(t *testing.T) {
	wrong := sealKey(7)
	inside, outside, notes := strangers(t, key.Ring{wrong})
	if !strings.Contains(notes[1], "it has none of this host's keys") {
		t.Errorf("the stranger's status does not say why nobody joins: %s", notes[1])
	}
	ours, theirs := sealKey(1).ID.String(), wrong.ID.String()
	for i, want := range []string{
		"a host at 10.0.0.3:7950 has another key (id " + theirs + "), and this host has " + ours,
		"a host at 10.0.0.1:7950 has another key (id " + ours + "), and this host has " + theirs,
	} {
		if !strings.Contains(notes[i], want) || strings.Contains(notes[i], "generate") {
			t.Errorf("status does not name the other, or has it make a key: %q is not in\n%s", want, notes[i])
		}
	}
	// A host hears of it by the other's INIT, or by the answer to its own.
	for who, w := range map[string]*told{"a member": inside, "the stranger": outside} {
		if n := w.count("not taken", ours, theirs); n < 1 || n > 8 { // for each of two hosts
			t.Errorf("%d lines with both ids at %s, want one a minute and host:\n%s", n, who, strings.Join(w.lines, ""))
		}
	}
}

// A host was down while the key was replaced. It comes back with the old one alone, joins
// nobody, and is told why, with the ids of both.
func TestBackWithTheOldKeyCase74(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		back, w, fresh := c.hosts[2], &told{}, sealKey(2)
		c.agrees(back)
		c.kill(back)
		c.agrees(c.hosts[1])
		for _, h := range c.hosts[:2] {
			h.agent.seal.SetKeys(key.Ring{fresh})
		}
		settings := back.settings
		back.settings = func(cfg *Config) {
			settings(cfg)
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: w})
		}
		c.start(back)
		time.Sleep(time.Minute)
		s := back.agent.Status()
		if notes := strings.Join(s.Notes, "\n"); s.Members != 1 || !strings.Contains(notes, "it has none of this host's keys") {
			t.Errorf("%d members, and the notes are %s", s.Members, notes)
		}
		if n := w.count("not taken", sealKey(1).ID.String(), fresh.ID.String()); n < 1 || n > 4 { // of each of the two
			t.Errorf("%d lines with both ids:\n%s", n, strings.Join(w.lines, ""))
		}
		c.stopAll()
	})
}

// tape is what was put on the wire.
type tape struct {
	mu   sync.Mutex
	sent []lantest.Sent
}

func (c *cluster) record() *tape {
	tp := &tape{}
	c.lan.OnBytes(func(s lantest.Sent) {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		tp.sent = append(tp.sent, s)
	})
	return tp
}

func (tp *tape) all() []lantest.Sent {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return slices.Clone(tp.sent)
}

// Case 20: a cluster's whole life is captured. No name, id, address or settings are in it,
// and no frame.
func TestNothingInClearCase20(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		tp := c.record()
		var secrets [][]byte
		for _, h := range c.hosts {
			c.start(h)
			id, addr := h.agent.seat.state.ID, h.addr.Addr().As4()
			secrets = append(secrets, id[:], []byte(id.String()), addr[:], []byte(h.addr.Addr().String()), []byte(h.name+"."), []byte("\xa2"+h.name))
		}
		c.agrees(c.hosts[2])
		time.Sleep(time.Minute)
		c.kill(c.hosts[2])
		c.agrees(c.hosts[1])
		secrets = append(secrets, []byte("test"), []byte{wire.Magic0, wire.Magic1})
		sent := tp.all()
		streams := 0
		for _, s := range sent {
			if s.Stream {
				streams++
			} else if len(s.Data) < 16 || s.Data[0] != wire.Magic0 || s.Data[1] != 0x5E || len(s.Data) > 1232 {
				t.Errorf("a datagram of %d bytes that is not sealed: %x", len(s.Data), s.Data[:min(len(s.Data), 16)])
			}
			for _, secret := range secrets {
				// Two or four bytes are there by chance now and then; not in the same place twice.
				if len(secret) > 4 && bytes.Contains(s.Data, secret) || bytes.HasPrefix(s.Data, secret) {
					t.Errorf("%q is in clear in %x", secret, s.Data)
				}
			}
		}
		if len(sent) < 1000 || streams < 10 {
			t.Errorf("captured %d, %d of streams: this test saw too little", len(sent), streams)
		}
		c.stopAll()
	})
}

// replay plays what was captured, again and again until ctx ends, from an address of its own.
func (c *cluster) replay(ctx context.Context, sent []lantest.Sent, pause time.Duration) {
	thief := c.lan.Host("thief", netip.MustParseAddrPort("10.0.0.66:7950"))
	defer func() { _ = thief.Shutdown() }()
	for ctx.Err() == nil {
		for _, s := range sent {
			if !s.Stream && ctx.Err() == nil {
				c.lan.Forge(s.From, s.To, s.Data) // as if it came from where it was captured
				time.Sleep(pause)
			}
		}
	}
}

// Case 28: all that was heard of a leader is played again after its death. It is found
// dead as soon as without.
func TestDeadLeadersFramesReplayedCase28(t *testing.T) {
	took := map[bool]time.Duration{}
	for _, isReplayed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newSealedCluster(t, 3)
			for _, h := range c.hosts {
				c.start(h)
			}
			c.agrees(c.hosts[2])
			time.Sleep(10 * time.Second)
			tp := c.record()
			time.Sleep(5 * time.Second)
			sent := tp.all()
			c.lan.OnBytes(nil)
			c.lan.Isolate("n3") // its silence must be noticed: nobody refuses in its place
			ctx, cancel := context.WithCancel(t.Context())
			var ends sync.WaitGroup
			if isReplayed {
				ends.Go(func() { c.replay(ctx, sent, time.Millisecond) })
			}
			begun := time.Now()
			for time.Since(begun) < time.Minute && !c.hosts[1].agent.Status().LeaderIsSelf {
				time.Sleep(time.Millisecond)
			}
			took[isReplayed] = time.Since(begun)
			cancel()
			ends.Wait()
			c.lan.Heal()
			c.agreesOnOne()
			c.stopAll()
		})
	}
	if d := took[true] - took[false]; d > took[false]/5 || d < -took[false]/5 {
		t.Errorf("noticed after %v under replay, %v without", took[true], took[false])
	}
}

// agreesOnOne waits until somebody leads alone.
func (c *cluster) agreesOnOne() {
	for range 6000 {
		if c.leader() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Error("nobody leads alone")
}

// Case 29: a leader's departure is captured, LEAVE included, and played when it is back.
func TestLeaveReplayedAfterARejoinCase29(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		top := c.hosts[2]
		tp := c.record()
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		top.agent = nil
		c.agrees(c.hosts[1])
		sent := tp.all()
		c.lan.OnBytes(nil)
		c.start(top)
		c.agrees(top)
		time.Sleep(5 * time.Second)
		hooks := len(top.hooks.ran())
		seen := len(eventsOf(c.hosts[0]))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c.replay(ctx, sent, 100*time.Microsecond)
		c.agrees(top)
		if n := len(top.hooks.ran()); n != hooks {
			t.Errorf("hooks ran: %q", top.hooks.ran()[hooks:])
		}
		for _, e := range eventsOf(c.hosts[0])[seen:] {
			t.Errorf("%s: %s %s", c.hosts[0].name, e.Type, e.Text)
		}
		c.stopAll()
	})
}

// A will is said in clear, from any address, also where all else is sealed. It ends the leader at once
// who has announced it; anybody else's ends nobody.
func TestAWillIsTakenInClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		c.expecting(3)
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[2]
		c.agrees(top)
		time.Sleep(time.Second)
		stranger := c.lan.Host("stranger", netip.MustParseAddrPort("10.0.0.66:7950"))
		heirs := top.hooks.left()
		if len(heirs) != 2 {
			t.Fatalf("heirs %v, want 2", heirs)
		}
		say := func(s wire.Secret) {
			for _, to := range heirs {
				if err := stranger.Send(to, wire.AppendWill(nil, s)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range 1000 {
			say(wire.Secret{byte(i), byte(i >> 8), 1})
		}
		say(c.hosts[0].hooks.secret)
		time.Sleep(time.Second)
		c.agrees(top)
		if got := c.hosts[0].agent.counters.snapshot()["will_unknown"]; got != 1001 {
			t.Errorf("%d wills were counted as unknown", got)
		}
		say(top.hooks.secret)
		time.Sleep(100 * time.Millisecond)
		for _, h := range c.hosts[:2] {
			if s := h.agent.Status(); s.Leader != nil && s.Leader.Name == top.name {
				t.Errorf("%s follows whom it was told to be dead", h.name)
			}
		}
		c.stopAll()
	})
}
