package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// lan is some hosts with a Scheduler each, their disks, commands and cables, and
// who leads, as a test says. The clock begins at noon of 2026-06-01 and moves by
// what is due alone.
type lan struct {
	t      *testing.T
	now    time.Time
	hosts  []*lanHost
	quorum bool
	under  []parcel // under way
	trace  strings.Builder
	frames bool          // they are shown
	delay  time.Duration // of a datagram
	lasts  time.Duration // of a command
	exit   uint8
	killed bool // it is ended by its holder
	cut    map[[2]int]bool
	keep   map[wire.Kind]bool // kinds that are lost

	known uint64 // the highest epoch: elections are quick

	starts map[string]int // of each slot, J1
}

type lanHost struct {
	number     int
	id         wire.ID
	s          *Scheduler // nil: down
	disk       []byte
	full       bool
	lostLedger bool // as its next start finds
	leaseEnd   bool // the driver finds the lease over at Begin
	commands   []command
	skew       time.Duration
}

type command struct {
	job  string
	key  Key
	ends time.Time
	exit uint8

	killed bool
}

type parcel struct {
	at       time.Time
	from, to *lanHost
	message  Message
}

func newLan(t *testing.T, n int, quorum bool, table ...Job) *lan {
	w := &lan{t: t, now: clock("12:00"), quorum: quorum, delay: time.Millisecond, lasts: time.Second,
		cut: map[[2]int]bool{}, keep: map[wire.Kind]bool{}, starts: map[string]int{}}
	for i := range n {
		h := &lanHost{number: i + 1, id: wire.ID{byte(i + 1)}}
		w.hosts = append(w.hosts, h)
	}
	for _, h := range w.hosts {
		w.boot(h, table)
	}
	return w
}

// tableOf makes one job for each schedule: a, b, …
func tableOf(t *testing.T, change func(*Job), schedules ...string) []Job {
	t.Helper()
	var table []Job
	for i, text := range schedules {
		name := string(rune('a' + i))
		s, err := ParseSchedule(text, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := Job{Name: name, Schedule: s, Timeout: 10 * time.Second}
		if change != nil {
			change(&j)
		}
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		table = append(table, j)
	}
	return table
}

func (w *lan) host(number int) *lanHost { return w.hosts[number-1] }

func (w *lan) boot(h *lanHost, table []Job) {
	var ledger *Ledger
	if h.disk != nil {
		l, err := Parse(h.disk)
		if err != nil {
			w.t.Fatalf("n%d: %v", h.number, err)
		}
		ledger = l
	}
	h.s = NewScheduler(SchedulerConfig{Self: h.id, Table: table, LedgerLost: h.lostLedger, ClaimTimeout: 1900 * time.Millisecond}, ledger)
	var peers []wire.ID
	for _, other := range w.hosts {
		if other != h {
			peers = append(peers, other.id)
		}
	}
	w.step(h, Peers{peers})
}

// lead lets a host lead, with all hosts as voters in quorum mode.
func (w *lan) lead(number int, epoch uint64) {
	h := w.host(number)
	e := Leading{Epoch: epoch, Since: w.clockOf(h)}
	if w.quorum {
		for _, other := range w.hosts {
			e.Voters = append(e.Voters, other.id)
		}
		e.Need = len(w.hosts)/2 + 1
	}
	w.step(h, e)
}

func (w *lan) clockOf(h *lanHost) time.Time { return w.now.Add(h.skew) }

// setClock sets a host's wall clock so much ahead of what is true, and says so.
func (w *lan) setClock(number int, skew time.Duration) {
	h := w.host(number)
	by := skew - h.skew
	h.skew = skew
	w.step(h, ClockSet{By: by})
}

// step gives an event to a host and carries out what it says.
func (w *lan) step(h *lanHost, ev Event) {
	if h.s == nil {
		return
	}
	if e, isLeading := ev.(Leading); isLeading {
		w.known = max(w.known, e.Epoch)
	}
	effects := slices.Clone(h.s.Step(w.clockOf(h), ev))
	for _, effect := range effects {
		if !w.apply(h, effect) {
			w.say(h, "save fails")
			w.step(h, SaveFailed{})
			return
		}
	}
}

func (w *lan) apply(h *lanHost, effect Effect) bool {
	switch e := effect.(type) {
	case Save:
		if h.full {
			return false
		}
		h.disk = slices.Clone(e.Bytes)
	case Send:
		w.post(h, e)
	case Begin:
		w.start(h, e)
	case End:
		w.say(h, "%s: ends the command of %s (%v)", e.Job, keyText(e.Key), e.Outcome)
		for i := range h.commands {
			if c := &h.commands[i]; c.job == e.Job && c.key == e.Key {
				c.ends, c.exit = w.now.Add(10*time.Millisecond), 143
			}
		}
	case Reply:
		if e.Err != nil {
			w.say(h, "reply %d: %v", e.Token, e.Err)
		} else {
			w.say(h, "reply %d: ok", e.Token)
		}
	case Noted:
		w.note(h, e.Decision)
	case Refused:
		w.say(h, "refuses %s", e.Why)
	}
	return true
}

func (w *lan) note(h *lanHost, d Decision) {
	if d.Do == 0 {
		w.say(h, "%s: run %s %v %v exit=%d", d.Job, keyText(d.Run.Key), d.Run.Phase, d.Run.Outcome, d.Run.Exit)
		return
	}
	w.say(h, "%s: %s", d.Job, short(d))
}

func keyText(k Key) string {
	if k.Manual {
		return shortTime(k.Slot.Time()) + " by hand"
	}
	return shortTime(k.Slot.Time())
}

func (w *lan) start(h *lanHost, e Begin) {
	if h.leaseEnd {
		w.say(h, "%s: does not begin %s, the lease has ended", e.Job.Name, keyText(e.Run.Key))
		w.later(h, StartFailed{Job: e.Job.Name, Key: e.Run.Key})
		return
	}
	w.say(h, "%s: begins %s attempt=%d", e.Job.Name, keyText(e.Run.Key), e.Run.Attempt)
	w.checkOnDisk(h, e)
	if e.Run.Attempt == 1 && !e.Run.Manual {
		key := e.Job.Name + " " + e.Run.Slot.String()
		if w.starts[key]++; w.starts[key] > 1 && w.quorum {
			w.t.Errorf("J1: %s started twice", key)
		}
	}
	h.commands = append(h.commands, command{e.Job.Name, e.Run.Key, w.now.Add(w.lasts), w.exit, w.killed})
}

// J2: what starts is on the disk of its own host, as running.
func (w *lan) checkOnDisk(h *lanHost, e Begin) {
	l, err := Parse(h.disk)
	if err != nil {
		w.t.Fatalf("J2: n%d: %v", h.number, err)
	}
	if r, ok := l.run(e.Job.Name, e.Run.Key); !ok || r != e.Run {
		w.t.Errorf("J2: n%d starts %v with %v on disk", h.number, e.Run, r)
	}
}

// later gives a host an event after the present step.
func (w *lan) later(h *lanHost, ev Event) { defer w.step(h, ev) }

func (w *lan) post(h *lanHost, e Send) {
	i := slices.IndexFunc(w.hosts, func(other *lanHost) bool { return other.id == e.To })
	if i < 0 || e.To == h.id {
		w.t.Fatalf("n%d sends %v to %s", h.number, e.Message, e.To.Short())
	}
	if len(e.Message.Payload) > wire.MaxPayload {
		w.t.Fatalf("%v of %d bytes", e.Message.Kind, len(e.Message.Payload))
	}
	isLost := w.cut[[2]int{h.number, i + 1}] || w.keep[e.Message.Kind]
	if w.frames {
		note := ""
		if isLost {
			note = " (lost)"
		}
		w.say(h, "→ n%d %s%s", i+1, messageText(e.Message), note)
	}
	if !isLost {
		w.under = append(w.under, parcel{w.now.Add(w.delay), h, w.hosts[i], e.Message})
	}
}

func messageText(m Message) string {
	switch m.Kind {
	case wire.JobWitness:
		return fmt.Sprintf("%v %v", m.Kind, m.Why)
	case wire.LedgerQuery:
		return fmt.Sprintf("%v place=%d", m.Kind, m.Place)
	case wire.LedgerPart:
		return fmt.Sprintf("%v place=%d of %d", m.Kind, m.Place, m.Count)
	}
	return m.Kind.String()
}

func (w *lan) say(h *lanHost, format string, args ...any) {
	fmt.Fprintf(&w.trace, "%s n%d %s\n", shortTime(w.now), h.number, fmt.Sprintf(format, args...))
}

// run lets time pass.
func (w *lan) run(d time.Duration) {
	for limit := w.now.Add(d); ; {
		at, do := w.next()
		if at.After(limit) || do == nil {
			w.now = limit
			return
		}
		w.now = later(at, w.now)
		do()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// next is what happens first: of things at one time, in this order.
func (w *lan) next() (time.Time, func()) {
	var first time.Time
	var do func()
	propose := func(at time.Time, action func()) {
		if do == nil || at.Before(first) {
			first, do = at, action
		}
	}
	for i, p := range w.under {
		propose(p.at, func() {
			w.under = slices.Delete(w.under, i, i+1)
			w.step(p.to, Heard{From: p.from.id, Message: p.message, Known: w.known})
		})
	}
	for _, h := range w.hosts {
		for i, c := range h.commands {
			propose(c.ends, func() {
				h.commands = slices.Delete(h.commands, i, i+1)
				w.step(h, Exited{Job: c.job, Key: c.key, Exit: c.exit, Killed: c.killed})
			})
		}
		if h.s == nil {
			continue
		}
		if at := h.s.Deadline(); !at.IsZero() {
			propose(at.Add(-h.skew), func() { w.tick(h, at) })
		}
	}
	return first, do
}

// tick reaches a deadline, which must not be due afterwards.
func (w *lan) tick(h *lanHost, at time.Time) {
	w.step(h, Tick{})
	if h.s != nil && h.s.Deadline().Equal(at) && !w.clockOf(h).Before(at) {
		w.step(h, Tick{})
		if h.s.Deadline().Equal(at) {
			w.t.Fatalf("n%d: at %v its deadline stays %v\n%s", h.number, w.now, at, w.trace.String())
		}
	}
}

// crash ends an agent; its holder ends the commands.
func (w *lan) crash(h *lanHost) {
	h.s, h.commands = nil, nil
	w.under = slices.DeleteFunc(w.under, func(p parcel) bool { return p.to == h })
}

// cutOff takes a host's cables out, both ways.
func (w *lan) cutOff(number int, isCut bool) {
	for _, other := range w.hosts {
		w.cut[[2]int{number, other.number}], w.cut[[2]int{other.number, number}] = isCut, isCut
	}
}

// gossip lets two hosts exchange their ledgers.
func (w *lan) gossip(a, b *lanHost) {
	first, second := a.s.Bytes(), b.s.Bytes()
	w.step(a, Merged{second})
	w.step(b, Merged{first})
}
