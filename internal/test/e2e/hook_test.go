package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// Hooks that misbehave delay nothing: the heartbeats go on, nobody begins to lead who
// should not, the bounds of time and log hold, and when the leader dies in the middle
// of it all the next one takes over as quickly as ever.
func TestHookIsHostile(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	tests := []struct {
		name, body string
		fails      bool // and its host steps down
	}{
		{name: "sleeps for ever", body: "sleep 1000", fails: true},
		{name: "ignores TERM", body: "trap '' TERM; sleep 1000", fails: true},
		{name: "forks 200 children", body: "for i in $(seq 200); do sleep 1000 & done"},
		{name: "calls setsid", body: "setsid sh -c 'sleep 2; echo late >&2' & sleep 0.2"},
		{name: "closes its output", body: "exec >&- 2>&- <&-; sleep 1000", fails: true},
		{name: "prints 100 MB", body: "head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 100"},
		{name: "is replaced while it runs", body: `printf '#!/bin/sh\necho replaced\n' >$HOSTILE.new; chmod 755 $HOSTILE.new; mv $HOSTILE.new $HOSTILE; sleep 0.5`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { // one after the other: this is a measurement, too
			l := newLAN(t, 3, "--hook-timeout", "2s", "--hook-grace", "200ms", "--log-level", "info")
			l.hasRoomToLetGo()
			best, next := l.best(), l.next()
			hostile := l.hostile(best)
			l.start()
			l.agreeOn(best)
			heart := l.watchHeart(best, next)
			begun, before := time.Now(), len(best.wholeLog())
			time.Sleep(time.Second) // this is a measurement, not a wait
			heart.logRhythm(t, "before", begun)

			must(t, os.WriteFile(hostile, []byte("#!/bin/sh\nHOSTILE="+hostile+"\n"+tt.body+"\n"), 0o755))
			begun, changes := time.Now(), transitions(l.hosts)
			out, code := best.cli("hooks", "run", "become-leader")
			took := time.Since(begun)
			heart.logRhythm(t, "during", begun)
			t.Logf("hooks run: exit code %d after %v: %.300q", code, took, out)
			if want := map[bool]int{true: 1}[tt.fails]; code != want || took > patience {
				t.Errorf("exit code %d after %v, expected %d", code, took, want)
			}
			if grown := len(best.wholeLog()) - before; grown > 4<<20 {
				t.Errorf("the log has grown by %d bytes", grown)
			}
			if kept, _ := best.cli("hooks", "log", "2"); len(kept) > 200<<10 {
				t.Errorf("the ledger gives %d bytes for one run", len(kept))
			}
			if tt.fails {
				l.agreeOn(next)
				l.journal.order(on(best, loseBegin).because("hook-failed"), on(best, loseEnd), on(next, becomeBegin).because("handed-over"))
				return
			}
			if now := transitions(l.hosts); !slices.Equal(now, changes) {
				t.Errorf("meanwhile: %v, before: %v", now, changes)
			}
			if text, err := os.ReadFile(hostile); strings.Contains(tt.name, "replaced") && (err != nil || strings.Contains(string(text), "HOSTILE")) {
				t.Errorf("the hook was not replaced: %v", err)
			}
			best.kill()
			l.agreeOn(next)
			l.gap(on(best, isKilled), on(next, becomeBegin))
		})
	}
}

// hostile gives h a become hook that is a file, which a test can replace: it writes the
// journal's lines only while the file is the first one.
func (l *lan) hostile(h *host) (path string) {
	path = filepath.Join(h.dir, "hostile")
	must(l.t, os.WriteFile(path, []byte("#!/bin/sh\n"+l.journal.hook("")+"\n"), 0o755))
	h.options = append(h.options, "--on-become-leader", path)
	return path
}

// wholeLog is all that the agent has said so far.
func (h *host) wholeLog() []byte {
	h.lan.t.Helper()
	text, err := os.ReadFile(h.logPath())
	must(h.lan.t, err)
	return text
}

// runLine is the keeper's of a lose hook that starts, with the time that it has, or that
// was ended since it had used that up or the host leads again; or one of a host that leads
// again, or whose agent was told to stop.
var runLine = regexp.MustCompile(`hook (?:started|failed): epoch=(\d+) hook=lose-leadership (?:.* timeout=(\S+)|err="timed out |err="(stopped, since this node leads again))` +
	`|hook (?:started|dropped): .*(hook=become-leader)|(stopping cleanly)|(agent started)`)

// ended gives the leaderships whose lose hook was ended by the keeper, and of these the ones
// that had the time that a lose hook is promised where there is room; true: and it was started
// once more, or need not be, see verdict.Rules.
func (l *lan) ended() (all, overrun map[verdict.Leadership]bool) {
	all, overrun = make(map[verdict.Leadership]bool), make(map[verdict.Leadership]bool)
	for _, h := range l.hosts {
		text, err := os.ReadFile(h.logPath())
		if err != nil {
			continue
		}
		of, over := endedBy(text, l.room)
		for epoch, isRedone := range of {
			all[verdict.Leadership{Node: h.name, Counter: epoch}] = isRedone
		}
		for epoch, isRedone := range over {
			overrun[verdict.Leadership{Node: h.name, Counter: epoch}] = isRedone
		}
	}
	return all, overrun
}

// ownTimeout is the time a lose hook has if no lease cuts it, the default of the options.
const ownTimeout = 30 * time.Second

// endedBy is ended of one host's log, by epoch. The time that is promised is half of
// the stop budget if the keeper alone minds it, of which it leaves a quarter and a bit for
// the end. An agent that has a lease left gives all that is left of it. Without room nothing is promised.
func endedBy(log []byte, room time.Duration) (all, overrun map[uint64]bool) {
	all, overrun = make(map[uint64]bool), make(map[uint64]bool)
	redone := func(isSo func(epoch uint64) bool) {
		for _, of := range []map[uint64]bool{all, overrun} {
			for epoch := range of {
				of[epoch] = of[epoch] || isSo(epoch)
			}
		}
	}
	var had time.Duration // of the run that started last
	isStopping := false
	for _, m := range runLine.FindAllSubmatch(log, -1) {
		epoch, _ := strconv.ParseUint(string(m[1]), 10, 64)
		switch leads, stops, starts := len(m[4]) > 0, len(m[5]) > 0, len(m[6]) > 0; {
		case leads:
			redone(func(uint64) bool { return true })
		case stops, starts:
			isStopping = stops
		case len(m[2]) > 0:
			had, _ = time.ParseDuration(string(m[2]))
			redone(func(of uint64) bool { return of == epoch })
		case len(m[3]) > 0:
			all[epoch] = true
		default:
			all[epoch] = isStopping
			if room > 0 && had >= room/4 && had < ownTimeout {
				overrun[epoch] = isStopping
			}
		}
	}
	return all, overrun
}

// TestEnded reads made-up logs of one host.
func TestEnded(t *testing.T) {
	const (
		begun     = "[INFO]  keeper: hook started: epoch=7 hook=lose-leadership cause=lease-expired seq=2 attempt=1 timeout=150ms\n"
		cut       = "[ERROR] keeper: hook failed: epoch=7 hook=lose-leadership err=\"timed out after 151ms\" took=152ms\n"
		own       = "[ERROR] keeper: hook failed: epoch=7 hook=lose-leadership err=\"exit status 1\" took=52ms\n"
		tooLate   = "[INFO]  keeper: hook started: epoch=7 hook=lose-leadership cause=lease-expired seq=2 attempt=1 timeout=15ms\n"
		lease     = "[INFO]  keeper: hook started: epoch=7 hook=lose-leadership cause=link-lost seq=2 attempt=1 timeout=1.26s\n"
		redo      = "[INFO]  keeper: hook started: epoch=7 hook=lose-leadership cause=lease-expired seq=3 attempt=2 timeout=30s\n"
		overtaken = "[ERROR] keeper: hook failed: epoch=7 hook=lose-leadership err=\"stopped, since this node leads again\" took=52ms\n"
		leads     = "[INFO]  keeper: hook started: epoch=9 hook=become-leader cause=leader-failed seq=3 attempt=1 timeout=30s\n"
		dropped   = "[INFO]  keeper: hook dropped: hook=become-leader epoch=9 cause=leader-failed\n"
		stops     = "[INFO]  stopping cleanly\n"
		starts    = "[INFO]  agent started: member=a\n"
	)
	for _, tt := range []struct {
		name, log               string
		hasEnded, isCut, isDone bool // isDone: of what has ended, and of what was cut
	}{
		{name: "it has failed", log: begun + own},
		{name: "it had no time", log: tooLate + cut, hasEnded: true},
		{name: "it had all its own time", log: redo + cut, hasEnded: true},
		{name: "it had all its own time, and started again", log: redo + cut + redo, hasEnded: true, isDone: true},
		{name: "it failed, and then it leads again", log: begun + own + redo + overtaken, hasEnded: true, isDone: true},
		{name: "cut by what was left of the lease", log: lease + cut + redo, hasEnded: true, isCut: true, isDone: true},
		{name: "cut, and never again", log: begun + cut, hasEnded: true, isCut: true},
		{name: "cut, and started again", log: begun + cut + redo, hasEnded: true, isCut: true, isDone: true},
		{name: "cut again", log: begun + cut + begun + cut, hasEnded: true, isCut: true},
		{name: "cut, and it leads again", log: begun + cut + leads, hasEnded: true, isCut: true, isDone: true},
		{name: "cut, started again, and it leads again", log: begun + cut + redo + overtaken, hasEnded: true, isCut: true, isDone: true},
		{name: "cut, and it was about to lead again", log: begun + cut + dropped, hasEnded: true, isCut: true, isDone: true},
		{name: "it had led before", log: leads + begun + cut, hasEnded: true, isCut: true},
		{name: "cut while the agent stopped", log: stops + begun + cut, hasEnded: true, isCut: true, isDone: true},
		{name: "cut, and the agent stopped later", log: begun + cut + stops, hasEnded: true, isCut: true},
		{name: "cut in another life", log: stops + starts + begun + cut, hasEnded: true, isCut: true},
	} {
		all, overrun := endedBy([]byte(tt.log), 400*time.Millisecond)
		isDone, hasEnded := all[7]
		cutIsDone, isCut := overrun[7]
		if hasEnded != tt.hasEnded || isCut != tt.isCut || isDone != tt.isDone || isCut && cutIsDone != tt.isDone {
			t.Errorf("%s: ended %v, cut %v, done %v and %v; want %v, %v, %v", tt.name, hasEnded, isCut, isDone, cutIsDone, tt.hasEnded, tt.isCut, tt.isDone)
		}
		if all, overrun := endedBy([]byte(tt.log), 0); len(overrun) > 0 || len(all) > 0 != tt.hasEnded {
			t.Errorf("%s, without room: ended %v, cut %v", tt.name, all, overrun)
		}
	}
}

var failLine = regexp.MustCompile(`hook failed: epoch=(\d+) hook=lose-leadership`)

// failed gives the leaderships whose lose hook failed or was cut, see verdict.Rules.
func (l *lan) failed() map[verdict.Leadership]bool {
	failed := make(map[verdict.Leadership]bool)
	for _, h := range l.hosts {
		text, _ := os.ReadFile(h.logPath())
		for _, m := range failLine.FindAllSubmatch(text, -1) {
			epoch, _ := strconv.ParseUint(string(m[1]), 10, 64)
			failed[verdict.Leadership{Node: h.name, Counter: epoch}] = true
		}
	}
	return failed
}

// askLine is the keeper's of a hook that starts, or the agent's that its life has begun.
var askLine = regexp.MustCompile(`hook started: epoch=(\d+) hook=(become-leader|lose-leadership) cause=(\S+)|(agent started)`)

// asked gives the leaderships whose lose hook was started in the life that led, see verdict.Rules.
func (l *lan) asked() map[verdict.Leadership]bool {
	asked := make(map[verdict.Leadership]bool)
	for _, h := range l.hosts {
		text, _ := os.ReadFile(h.logPath())
		for _, epoch := range askedBy(text) {
			asked[verdict.Leadership{Node: h.name, Counter: epoch}] = true
		}
	}
	return asked
}

// askedBy is asked of one host's log.
func askedBy(log []byte) (asked []uint64) {
	var led string // in this life
	for _, m := range askLine.FindAllSubmatch(log, -1) {
		switch epoch, kind, cause := string(m[1]), string(m[2]), string(m[3]); {
		case len(m[4]) > 0:
			led = ""
		case kind == "become-leader":
			led = epoch
		case epoch == led && cause != verdict.CauseAgentDied && cause != verdict.CauseUncleanRestart:
			n, _ := strconv.ParseUint(epoch, 10, 64)
			asked = append(asked, n)
		}
	}
	return asked
}

// TestAsked reads made-up logs of one host.
func TestAsked(t *testing.T) {
	const (
		leads  = "[INFO]  hooks: hook started: epoch=7 hook=become-leader cause=leader-failed seq=1\n"
		loses  = "[INFO]  hooks: hook started: epoch=7 hook=lose-leadership cause=lease-expired seq=2\n"
		dies   = "[INFO]  hook started: epoch=7 hook=lose-leadership cause=agent-died seq=2\n"
		starts = "[INFO]  agent started: member=a\n"
	)
	for _, tt := range []struct {
		name, log string
		isAsked   bool
	}{
		{"alive", starts + leads + loses, true},
		{"dead", starts + leads + dies, false},
		{"in the next life", starts + leads + starts + loses, false},
		{"another leadership", starts + strings.ReplaceAll(leads, "7", "5") + loses, false},
	} {
		if asked := askedBy([]byte(tt.log)); (len(asked) > 0) != tt.isAsked {
			t.Errorf("%s: %v", tt.name, asked)
		}
	}
}

// A notification that hangs holds up no leadership.
func TestHookHangsAsNotification(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--on-leader-change", "sleep 1000", "--on-member-change", "sleep 1000", "--hook-timeout", "30s")
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	best.kill()
	l.agreeOn(next)
	l.gap(on(best, isKilled), on(next, becomeBegin))
	l.led(best, next)
}

// began is an error until h's become hook has begun.
func (l *lan) began(h *host) error {
	if l.journal.last(h, becomeBegin).Epoch.Counter == 0 {
		return fmt.Errorf("no become hook on %s", h)
	}
	return nil
}

// agreeLoosely waits until all follow leader, ready or not.
func (l *lan) agreeLoosely(leader *host) {
	l.t.Helper()
	for _, h := range l.running() {
		l.eventually(fmt.Sprintf("%s follows %s", h, leader), patience, func() error {
			s, err := h.status()
			if err == nil && (s.Leader == nil || s.Leader.Name != leader.name) {
				err = fmt.Errorf("it is %s, %s", s.State, s.Cause)
			}
			return err
		})
	}
}

// transitions lists what changed on these hosts so far, as their agents tell it.
func transitions(hosts []*host) []string {
	var out []string
	for _, h := range hosts {
		for _, e := range h.events(0) {
			if e.Type == "transition" {
				out = append(out, fmt.Sprintf("%s %s (%s, epoch %d)", h, e.Text, e.Cause, epochOf(e)))
			}
		}
	}
	return out
}

// changes counts what changed on these hosts so far, by host and cause. Agents forget old events, as transitions needs them,
// and no count.
func changes(hosts []*host) map[string]uint64 {
	out := map[string]uint64{}
	for _, h := range hosts {
		s, err := h.status()
		must(h.lan.t, err)
		for name, n := range s.Counters {
			if cause, isOne := strings.CutPrefix(name, control.TransitionCounter); isOne {
				out[h.name+" "+cause] = n
			}
		}
	}
	return out
}

func epochOf(e control.Event) uint64 {
	if e.Epoch == nil {
		return 0
	}
	return e.Epoch.Counter
}

// A leadership that ends while its become hook runs kills it, and the lose hook
// runs then.
func TestStopDuringBecomeHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--hook-grace", "200ms")
	best, next := l.best(), l.next()
	best.onBecome = "sleep 1000"
	l.start()
	l.eventually("the hook has begun", patience, func() error { return l.began(best) })
	l.agreeLoosely(best)
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	l.agreeOn(next)
	if l.journal.last(best, becomeEnd).Epoch.Counter != 0 {
		t.Errorf("the become hook went on to its end")
	}
	l.journal.order(on(best, becomeBegin), on(best, loseBegin).because("stopped"), on(best, loseEnd), on(next, becomeBegin).because("handed-over"))
	if left := best.net.Processes(); len(left) > 0 {
		t.Errorf("processes %v were left behind on %s", left, best)
	}
}

// The agent is killed while its become hook runs. Its keeper ends what is left of that
// hook, and runs the lose hook at once; the next start has nothing to clean up.
func TestKilledDuringBecomeHook(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	best.onBecome = "sleep 1000"
	l.start()
	l.eventually("the hook has begun", patience, func() error { return l.began(best) })
	l.agreeLoosely(best)
	best.kill()
	l.agreeOn(next)
	l.nothingRuns(best)
	best.onBecome = ""
	best.start()
	l.agreeOn(best)
	l.journal.order(on(best, becomeBegin), on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd),
		on(best, isStarted), on(next, loseEnd), on(best, becomeBegin))
	l.led(best, next, best)
}

// nothingRuns waits until no process of h is left.
func (l *lan) nothingRuns(h *host) {
	l.t.Helper()
	l.eventually("nothing is left on "+h.name, patience, func() error {
		if left := h.net.Processes(); len(left) > 0 {
			return fmt.Errorf("processes %v run", left)
		}
		return nil
	})
}

// A planned change waits for a lose hook that takes longer than the lease.
func TestSlowLoseHookHoldsUpTheNext(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	for _, h := range l.hosts {
		h.onLose = "sleep 1.5"
	}
	l.start()
	l.agreeOn(best)
	if code := best.stop(); code != 0 {
		t.Errorf("the agent exited with %d, expected 0", code)
	}
	l.agreeOn(next)
	l.journal.order(on(best, loseBegin), on(best, loseEnd), on(next, becomeBegin).because("handed-over"))
	l.gap(on(best, loseEnd), on(next, becomeBegin))
	if took := l.journal.last(best, loseEnd).At - l.journal.last(best, loseBegin).At; took < 1400*time.Millisecond {
		t.Errorf("the lose hook took %v, expected its 1.5 s", took)
	}
}

// In available mode a leader with a takeover delay is waited for when its agent is killed: until
// its lose hook has ended, and no longer.
func TestAKilledLeaderIsWaitedForWhileItLetsGo(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--takeover-delay", "20s")
	best, next := l.best(), l.next()
	for _, h := range l.hosts {
		h.onLose = "sleep 1.5"
	}
	l.start()
	l.agreeOn(best)
	best.kill()
	l.agreeOn(next)
	l.journal.order(on(best, isKilled), on(best, loseBegin).because("agent-died"), on(best, loseEnd), on(next, becomeBegin).because("process-gone"))
	l.gap(on(best, loseEnd), on(next, becomeBegin))
	if took := l.journal.last(next, becomeBegin).At - l.journal.last(best, loseEnd).At; took > 5*time.Second {
		t.Errorf("%s led %v after that, far beyond the word of the keeper", next, took)
	}
}
