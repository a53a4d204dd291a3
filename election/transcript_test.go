package election

import (
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/bully-agent/bully-agent/wire"
)

// TestTranscripts replays testdata/election: each file tells one story in the
// commands below and shows every transition, hook and, on request, frame.
// Run with -rewrite to accept a changed story, and read the difference.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("..", "testdata", "election"), func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				w = clusterCommand(t, d)
				return ""
			}
			w.t = t
			w.trace.Reset()
			w.command(d)
			if w.trace.Len() == 0 {
				return "ok"
			}
			return w.trace.String()
		})
	})
}

// clusterCommand makes the hosts n1 … nN; nothing runs yet.
//
//	cluster n=3 [algorithm=enhanced] [candidate-set=K] [known-minimum=P] [priority=(1,2,3)] [preempt=never] [min-acks=K] [takeover-delay=D] [lease=D stop-budget=D] [observer=K] [expect=N] [witness=K] [delay=D]
func clusterCommand(t *testing.T, d *datadriven.TestData) *world {
	cfg := Config{MinAcks: AutoMinAcks}
	var n int
	d.ScanArgs(t, "n", &n)
	scanDuration(t, d, "takeover-delay", &cfg.TakeoverDelay)
	scanDuration(t, d, "lease", &cfg.Lease)
	scanDuration(t, d, "stop-budget", &cfg.StopBudget)
	d.MaybeScanArgs(t, "min-acks", &cfg.MinAcks)
	d.MaybeScanArgs(t, "min-members", &cfg.MinMembers)
	d.MaybeScanArgs(t, "expect", &cfg.Expect)
	var algorithm string
	if d.MaybeScanArgs(t, "algorithm", &algorithm) {
		named := map[string]Algorithm{"enhanced": Enhanced, "smallest": Smallest}
		if cfg.Algorithm = named[algorithm]; cfg.Algorithm == 0 {
			d.Fatalf(t, "algorithm %s is unknown", algorithm)
		}
	}
	d.MaybeScanArgs(t, "candidate-set", &cfg.CandidateSet)
	var minimum int
	d.MaybeScanArgs(t, "known-minimum", &minimum)
	cfg.KnownMinimum = uint16(minimum)
	var preempt string
	if d.MaybeScanArgs(t, "preempt", &preempt) {
		cfg.Preempt = map[string]Policy{"priority": PreemptPriority, "always": PreemptAlways, "never": PreemptNever}[preempt]
	}
	w := newWorld(t, n, cfg)
	scanDuration(t, d, "delay", &w.delay)
	for _, arg := range d.CmdArgs {
		if arg.Key == "priority" {
			for i, v := range arg.Vals {
				p, _ := strconv.Atoi(v)
				w.hosts[i].priority = uint16(p)
			}
		}
	}
	var observer int
	if d.MaybeScanArgs(t, "observer", &observer) {
		w.host(observer).part = Observer
	}
	var witness int
	if d.MaybeScanArgs(t, "witness", &witness) {
		w.host(witness).part = Witness
	}
	return w
}

func scanDuration(t *testing.T, d *datadriven.TestData, key string, into *time.Duration) {
	var text string
	if !d.MaybeScanArgs(t, key, &text) {
		return
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	*into = v
}

// command carries out one line of a transcript:
//
//	boot [K …]            start hosts, all of them if none is named
//	run D | settle        let time pass; settle runs until all agree on a leader, for 10 s at most
//	die K                 the process ends; the host refuses connections from then on
//	will K                the lose hook of a process that died has ended, and its will is sent
//	holders K on|off      something beside the hooks acts for a leader
//	wipe K                a host that is down loses its disk
//	link K up|down        the host's own link
//	step-down K D · handover K L · forget K L [force]
//	maintain K [force]
//	kill K · freeze K D · leave K · full K · free K (disk)
//	sync K D              from now on a save takes so long, and the process waits for it
//	cut K>L … · heal      cables, one direction each; K|L is both
//	dead K [at L …] · alive K [at L …]   what the failure detector says
//	hold KIND K>L · release             frames kept back, and let go in order
//	lose D                from now on a lose hook takes so long
//	frames on|off         show frames, heartbeats excepted
//	count                 frames sent since the last count
//	bar K BAR on|off      the agent has found out what keeps its node from standing
//	status
//	unlist K [at L …]     these hosts, all of them if none is named, take K out of their host lists, and K is told so
//	unlist K untold       all do, and K does not hear of it
//	why [K …]             what keeps a host from standing and from claiming, and what it goes by
func (w *world) command(d *datadriven.TestData) {
	args := make([]string, 0, len(d.CmdArgs))
	for _, a := range d.CmdArgs {
		args = append(args, a.Key)
	}
	switch d.Cmd {
	case "boot":
		for _, h := range w.named(args) {
			w.boot(h)
		}
	case "run":
		w.runFor(w.duration(args[0]))
	case "settle":
		if !w.runUntil(w.now.Add(10*time.Second), w.agreed) {
			fmt.Fprintln(&w.trace, "no agreement within 10 s")
		}
	case "kill":
		w.kill(w.named(args)[0])
	case "die":
		w.die(w.named(args)[0])
	case "will":
		w.bequeath(w.named(args)[0])
	case "holders":
		w.step(w.named(args[:1])[0], HoldersChanged{Some: args[1] == "on"})
	case "wipe":
		w.wipe(w.named(args)[0])
	case "link":
		w.step(w.named(args[:1])[0], LinkChanged{Up: args[1] == "up"})
	case "step-down":
		w.step(w.named(args[:1])[0], Command{Verb: StepDown, For: w.duration(args[1]), Token: 3})
	case "handover":
		w.step(w.named(args[:1])[0], Command{Verb: HandOver, To: w.named(args[1:])[0].id(), Token: 4})
	case "maintain":
		w.step(w.named(args[:1])[0], Command{Verb: Maintain, Force: len(args) > 1, Token: 6})
	case "unlist":
		at, isTold := w.hosts, true
		if len(args) > 1 && args[1] == "untold" {
			isTold = false
		} else if len(args) > 1 {
			at = w.named(args[2:])
		}
		w.unlist(w.named(args[:1])[0], at, isTold)
	case "forget":
		w.step(w.named(args[:1])[0], Command{Verb: Forget, Force: len(args) > 2, To: w.named(args[1:2])[0].id(), Token: 5})
	case "freeze":
		w.freeze(w.named(args[:1])[0], w.duration(args[1]))
	case "leave":
		w.step(w.named(args)[0], Command{Verb: Leave, Token: 1})
	case "priority":
		p, _ := strconv.Atoi(args[1])
		w.host(number(args[0])).priority = uint16(p)
		w.step(w.named(args[:1])[0], Command{Verb: Reprioritise, Priority: uint16(p), Token: 2})
	case "full", "free":
		h := w.named(args)[0]
		h.diskFull = d.Cmd == "full"
		if !h.diskFull {
			w.step(h, SaveRecovered{})
		}
	case "sync":
		w.named(args[:1])[0].sync = w.duration(args[1])
	case "cut":
		for _, a := range args {
			w.cut(a)
		}
	case "heal":
		clear(w.cuts)
	case "dead", "alive":
		w.detect(d.Cmd, args)
	case "hold":
		from, to, _ := strings.Cut(args[1], ">")
		w.holds = append(w.holds, hold{kindNamed(args[0]), number(from), number(to)})
	case "release":
		w.release()
	case "lose":
		w.lose = w.duration(args[0])
	case "frames":
		w.sends = args[0] == "on"
	case "count":
		w.countSent()
	case "status":
		w.status()
	case "bar":
		for b := range barCount {
			if b.String() == args[1] {
				w.step(w.named(args[:1])[0], Barred{Bar: b, On: args[2] == "on"})
			}
		}
	case "why":
		for _, h := range w.named(args) {
			w.why(h)
		}
	default:
		w.t.Fatalf("%s: unknown command", d.Pos)
	}
}

func number(arg string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(arg, "n"))
	return n
}

func (w *world) named(args []string) []*host {
	if len(args) == 0 {
		return w.hosts
	}
	var out []*host
	for _, a := range args {
		out = append(out, w.host(number(a)))
	}
	return out
}

func (w *world) duration(arg string) time.Duration {
	v, err := time.ParseDuration(arg)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) cut(arg string) {
	if a, b, both := strings.Cut(arg, "|"); both {
		w.cuts[[2]int{number(a), number(b)}] = true
		w.cuts[[2]int{number(b), number(a)}] = true
		return
	}
	a, b, _ := strings.Cut(arg, ">")
	w.cuts[[2]int{number(a), number(b)}] = true
}

func (w *world) detect(what string, args []string) {
	status := map[string]Presence{"dead": Dead, "alive": Alive}[what]
	about := w.host(number(args[0]))
	witnesses := w.hosts
	if len(args) > 2 && args[1] == "at" {
		witnesses = w.named(args[2:])
	}
	for _, h := range witnesses {
		if h != about {
			w.step(h, MemberChanged{about.member(status)})
		}
	}
}

func (w *world) release() {
	held, from := w.held, w.heldFrom
	w.held, w.heldFrom, w.holds = nil, nil, nil
	for i, s := range held {
		w.carry(from[i], w.host(int(s.To.Addr().As4()[3])), s)
	}
}

func kindNamed(name string) wire.Kind {
	for k := wire.Election; k <= wire.Canvass; k++ {
		if k.String() == name {
			return k
		}
	}
	panic("no kind " + name)
}

// countSent shows what went out since the last count.
func (w *world) countSent() {
	var lines []string
	for k, n := range w.sent {
		if k != wire.Heartbeat && k != wire.HeartAck {
			lines = append(lines, fmt.Sprintf("%v %d", k, n))
		}
	}
	sort.Strings(lines)
	fmt.Fprintln(&w.trace, strings.Join(lines, "\n"))
	clear(w.sent)
}

// why shows a host's bars and outlook, and whom of the others it leaves out.
func (w *world) why(h *host) {
	text := h.node.Outlook().String()
	if bars := h.node.Status().Bars; bars != 0 {
		text = "bars=" + bars.String() + " " + text
	}
	for _, other := range w.hosts {
		if c, known := h.node.Candidate(other.id()); known && c.Unfit != Fit {
			text += fmt.Sprintf(" n%d:%s", other.number, c.Unfit)
		}
	}
	w.say(h, "%s", text)
}

func (w *world) status() {
	for _, h := range w.hosts {
		if h.node == nil {
			w.say(h, "down")
			continue
		}
		s := h.node.Status()
		leader := "none"
		if !s.Leader.IsZero() {
			leader = s.Leader.Short()
		}
		w.say(h, "%s leader=%s epoch=%v", s.State, leader, s.Epoch)
	}
}
