package e2e

import (
	"context"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/membership"
)

// attackRate is how many datagrams a second the attacker sends between its bursts.
const attackRate = 2000

// attackLength is how long a cluster is under attack: ten minutes by `make e2e`, each kind once else.
func attackLength() time.Duration {
	if os.Getenv("BULLY_E2E") == "long" {
		return 10 * time.Minute
	}
	return 20 * time.Second
}

// What an agent may need in the end more than before, and while it is attacked in all. Generous: what
// grows without bound goes beyond any.
const (
	maxGrownMB  = 64
	maxPeakMB   = 100
	maxFiles    = 512 // descriptors: 64 streams and 64 tethers of each kind, and its own
	maxThreads  = 64
	maxDiskSize = 8 << 20
)

// use is what an agent takes of its host.
type use struct {
	pss, cpu       float64 // MB; seconds
	files, threads int
	disk           int64 // bytes of its state directory
}

func (u use) String() string {
	return fmt.Sprintf("%.1f MB, %d descriptors, %d threads, %d bytes on disk", u.pss, u.files, u.threads, u.disk)
}

// use measures; the zero value is that of an agent that has ended.
func (h *host) use() (u use) {
	pid := strconv.Itoa(h.agent.cmd.Process.Pid)
	rollup, _ := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); f[0] == "Pss:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			u.pss = kb / 1000
		}
	}
	count := func(what string) int {
		entries, _ := os.ReadDir(filepath.Join("/proc", pid, what))
		return len(entries)
	}
	u.files, u.threads = count("fd"), count("task")
	u.cpu = h.cpuTime().Seconds()
	_ = filepath.WalkDir(filepath.Join(h.dir, "state"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				u.disk += info.Size()
			}
		}
		return nil // a file that is gone meanwhile
	})
	return u
}

// useOf measures all hosts.
func (l *lan) useOf() map[*host]use {
	l.t.Helper()
	all := make(map[*host]use)
	for _, h := range l.hosts {
		select {
		case <-h.agent.done:
			l.t.Fatalf("the agent of %s has ended: %v", h, h.agent.err)
		default:
			all[h] = h.use()
		}
	}
	return all
}

// watchUse measures each second until the context ends, and fails the test for what is beyond
// bounds. It gives the highest memory of each.
func (l *lan) watchUse(ctx context.Context) map[*host]float64 {
	peak := make(map[*host]float64)
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-time.After(time.Second):
		}
		for _, h := range l.hosts {
			select {
			case <-h.agent.done:
				l.t.Errorf("the agent of %s has ended: %v", h, h.agent.err)
				return peak
			default:
			}
			u := h.use()
			peak[h] = max(peak[h], u.pss)
			if u.files > maxFiles || u.threads > maxThreads || u.disk > maxDiskSize || u.pss > maxPeakMB {
				l.t.Errorf("%s under attack: %v", h, u)
				return peak
			}
		}
	}
}

// endure has the attacker do all that it can for so long, and fails the test for an agent that ends
// or takes ever more.
func (l *lan) endure(a *attacker, d time.Duration) {
	l.t.Helper()
	l.withstand(func() { a.wage(context.Background(), d, attackRate) })
}

// withstand is endure for any attack.
func (l *lan) withstand(attack func()) {
	l.t.Helper()
	before, begun := l.useOf(), time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	var peak map[*host]float64
	watch.Go(func() { peak = l.watchUse(ctx) })
	attack()
	cancel()
	watch.Wait()
	took := time.Since(begun).Seconds()
	for h, after := range l.useOf() {
		l.t.Logf("%s before: %v; after: %v; at most %.1f MB; %.0f %% of a core meanwhile", h, before[h], after, peak[h], 100*(after.cpu-before[h].cpu)/took)
		if after.pss > before[h].pss+maxGrownMB {
			l.t.Errorf("%s grew from %.1f to %.1f MB", h, before[h].pss, after.pss)
		}
	}
}

// aJobRuns is met once more jobs have started than now.
func (l *lan) aJobRuns(starts string) func() error {
	l.t.Helper()
	size := func() int64 {
		info, err := os.Stat(starts)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	return func() error {
		if size() == before {
			return errors.New("none has started")
		}
		return nil
	}
}

// lies finds what nobody but an attacker can have written on the disk of a host that has these jobs.
func (h *host) lies(names ...string) (found []string) {
	h.lan.t.Helper()
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	dir := filepath.Join(h.dir, "state")
	text, err := os.ReadFile(filepath.Join(dir, "jobs.ledger"))
	must(h.lan.t, err)
	ledger, err := jobs.Parse(text)
	if err != nil {
		say("its ledger: %v", err)
		return found
	}
	const newer = "junk" // as the leader's newer table could have it: there is room for so many, and they go (case 43)
	for _, name := range ledger.Jobs() {
		if name != newer && !slices.Contains(names, name) {
			say("job %q", name)
		}
	}
	soon := jobs.Slot(time.Now().Add(2 * time.Minute).Unix())
	for _, name := range names {
		e, _ := ledger.Entry(name)
		if e.Switch.Paused || e.Switch.At > jobs.Millis(soon)*1000 { // all were resumed
			say("job %s is paused, or was resumed in the future: %+v", name, e.Switch)
		}
		if e.Floor > soon {
			say("job %s is settled until %d", name, e.Floor)
		}
		for _, r := range e.Runs {
			if r.Slot > soon || r.Claimed > jobs.Millis(soon)*1000 {
				say("job %s has run %+v", name, r)
			}
		}
	}
	const (
		counterAt = 52 // see agent/state.go
		most      = 1 << 40
	)
	_, slot, err := durable.OpenSlots(filepath.Join(dir, "state"), durable.Format{Magic: "BLYS", Version: 5})
	must(h.lan.t, err)
	counter := bigendian.BigEndian.Uint64(slot.Content[counterAt:])
	h.lan.t.Logf("%s: highest epoch %d", h, counter)
	if counter > most {
		say("epoch counter %d leaves little room", counter)
	}
	return found
}

// rhythm is when datagrams go from one host to another, as heard at the switch: it needs no look
// into them.
type rhythm struct {
	mu    sync.Mutex
	beats []time.Time
}

func (a *attacker) listenTo(from, to *host) *rhythm {
	r := &rhythm{}
	a.overhear(func(p attack.Packet) {
		if !p.IsStream && p.From == from.addr && p.To == to.addr {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.beats = append(r.beats, time.Now())
		}
	})
	return r
}

// log says how far apart datagrams were since begun.
func (r *rhythm) log(t *testing.T, when string, begun time.Time) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var gaps []time.Duration
	for i, at := range r.beats {
		if i > 0 && at.After(begun) {
			gaps = append(gaps, at.Sub(r.beats[i-1]))
		}
	}
	if len(gaps) == 0 {
		t.Errorf("%s: the leader sends nothing", when)
		return
	}
	slices.Sort(gaps)
	at := func(share float64) time.Duration {
		return gaps[int(share*float64(len(gaps)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%s the leader sent %d datagrams to a follower, %v apart (p50), %v (p95), %v (p99), %v at most", when, len(gaps), at(0.5), at(0.95), at(0.99), at(1))
}

// Agents do not care for who has no part in their sessions: no leader changes, nobody joins or leaves, no hook runs, no disk
// grows. Cases 7 to 31 in one, with what the attacker hears for its start. In a cluster without a key it is the same.
func TestUnderAttack(t *testing.T) {
	needsLAN(t)
	for _, open := range []bool{false, true} {
		t.Run(keyWords(open), func(t *testing.T) { underAttack(t, open) })
	}
}

func underAttack(t *testing.T, open bool) {
	l := newLAN(t, 5, "--log-level", "info")
	l.insecure = open
	a := l.invade()
	a.heckle()
	l.start()
	best := l.best()
	l.agreeOn(best)
	for _, h := range l.hosts {
		a.learn(h, membership.Member{}) // what nobody hears who is no member
	}
	time.Sleep(2 * time.Second) // what follows a start has been told
	heart := a.listenTo(best, l.hosts[0])

	quiet := time.Now()
	before := l.useOf()
	const calm = 10 * time.Second
	l.steady(best, calm)
	heart.log(t, "in peace", quiet)
	for h, u := range l.useOf() {
		t.Logf("%s in peace: %.1f %% of a core", h, 100*(u.cpu-before[h].cpu)/calm.Seconds())
	}
	was, hooks, disk := changes(l.hosts), l.journal.read(), l.useOf()

	attacked := time.Now()
	l.endure(a, attackLength())
	heart.log(t, "under attack", attacked)
	if now := changes(l.hosts); !maps.Equal(now, was) {
		t.Errorf("changes before: %v; after: %v; of those told last: %q", was, now, transitions(l.hosts))
	}
	if now := l.journal.read(); len(now) != len(hooks) {
		t.Errorf("hooks ran:\n%s", timeline(now[len(hooks):]))
	}
	for h, u := range l.useOf() {
		if u.disk > disk[h].disk+64<<10 {
			t.Errorf("the state of %s grew from %d to %d bytes", h, disk[h].disk, u.disk)
		}
		s, err := h.status()
		must(t, err)
		if s.Members != len(l.hosts) || s.Alive != len(l.hosts) {
			t.Errorf("%s knows %d members, %d of them alive", h, s.Members, s.Alive)
		}
		for _, m := range h.members() {
			if m.Status != "alive" || m.Addr != l.addressOf(m.Name) {
				t.Errorf("%s takes %s for %s at %s", h, m.Name, m.Status, m.Addr)
			}
		}
		t.Logf("%s counted %v", h, s.Counters)
		for _, cause := range []string{"plain", "index", "mac", "replayed", "forged", "stream"} {
			if s.Counters["seal_dropped_"+cause] == 0 {
				t.Errorf("%s has dropped nothing because of %q: it was not attacked by that, and this test tests nothing", h, cause)
			}
		}
	}
	l.agreeOn(best)
	l.led(best)
}

func (l *lan) addressOf(name string) string {
	for _, h := range l.hosts {
		if h.name == name {
			return h.addr.String()
		}
	}
	return "nowhere"
}
