package jobs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/bully-agent/bully-agent/wire"
)

// TestTranscripts replays testdata/jobs: each file tells one story in the
// commands below and shows every decision, start, end and, on request, message.
// Run with -rewrite to accept a changed story, and read the difference.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("..", "..", "testdata", "jobs"), func(t *testing.T, path string) {
		var w *lan
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "hosts" {
				w = hostsCommand(t, d)
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

// hostsCommand makes the hosts n1 … nN, which run, and the jobs of the input,
// one a line: NAME SCHEDULE, then [key=value …] behind a bar.
//
//	hosts n=3 mode=quorum
//	a @every 10s | timeout=5s overlap=queue missed=once retries=1 retry-delay=1s deadline=8s on-loss=finish
func hostsCommand(t *testing.T, d *datadriven.TestData) *lan {
	var n int
	var mode string
	d.ScanArgs(t, "n", &n)
	d.ScanArgs(t, "mode", &mode)
	return newLan(t, n, mode == "quorum", jobLines(t, d)...)
}

func jobLines(t *testing.T, d *datadriven.TestData) []Job {
	var table []Job
	for line := range strings.Lines(d.Input) {
		head, tail, _ := strings.Cut(line, "|")
		name, schedule, _ := strings.Cut(strings.TrimSpace(head), " ")
		s, err := ParseSchedule(schedule, name, nil)
		if err != nil {
			d.Fatalf(t, "%s: %v", name, err)
		}
		j := Job{Name: name, Schedule: s, Timeout: 10 * time.Second}
		for _, word := range strings.Fields(tail) {
			key, value, _ := strings.Cut(word, "=")
			setJob(t, d, &j, key, value)
		}
		if err := j.Check(); err != nil {
			d.Fatalf(t, "%s: %v", name, err)
		}
		table = append(table, j)
	}
	return table
}

func setJob(t *testing.T, d *datadriven.TestData, j *Job, key, value string) {
	span, _ := time.ParseDuration(value)
	switch key {
	case "timeout":
		j.Timeout = span
	case "deadline":
		j.StartingDeadline = span
	case "retry-delay":
		j.RetryDelay = span
	case "retries":
		j.Retries, _ = strconv.Atoi(value)
	case "overlap":
		j.Overlap = Overlap(slices.Index(overlapWords[:], value))
	case "missed":
		j.Missed = Missed(slices.Index(missedWords[:], value))
	case "on-loss":
		j.OnLoss = OnLoss(slices.Index(onLossWords[:], value))
	default:
		d.Fatalf(t, "%s is no key of a job", key)
	}
}

// command carries out one line of a transcript:
//
//	lead K EPOCH | lose K        who leads
//	roster K EPOCH HOST …        the leader K has these voters from now on
//	run D                        time passes
//	lasts D [EXIT]               commands from now on take so long, and end so
//	ask K JOB | pause K JOB | resume K JOB
//	table K                      the host has another table, that of the input
//	cut K | heal K               cables, both ways
//	lost KIND | found KIND       messages of a kind, all of them
//	full K | free K              disk
//	leases-end K                 the host finds its lease over when it should begin
//	crash K | boot K | wipe K
//	gossip K L                   they exchange their ledgers
//	frames on|off                show messages
//	explain K | ledger K | stalled K
func (w *lan) command(d *datadriven.TestData) {
	var words []string
	for _, a := range d.CmdArgs {
		words = append(words, a.Key)
	}
	word := func(i int) string {
		if i >= len(words) {
			d.Fatalf(w.t, "%s: a word is missing", d.Cmd)
		}
		return words[i]
	}
	number := func(i int) int {
		n, err := strconv.Atoi(word(i))
		if err != nil {
			d.Fatalf(w.t, "%s: %v", d.Cmd, err)
		}
		return n
	}
	span := func(i int) time.Duration {
		v, err := time.ParseDuration(word(i))
		if err != nil {
			d.Fatalf(w.t, "%s: %v", d.Cmd, err)
		}
		return v
	}
	host := func(i int) *lanHost { return w.host(number(i)) }
	switch d.Cmd {
	case "lead":
		w.lead(number(0), uint64(number(1)))
	case "lose":
		w.step(host(0), NotLeading{})
	case "roster":
		e := Leading{Epoch: uint64(number(1)), Since: host(0).s.lead.Since, Need: (len(words)-2)/2 + 1}
		for i := 2; i < len(words); i++ {
			e.Voters = append(e.Voters, host(i).id)
		}
		w.step(host(0), e)
	case "run":
		w.run(span(0))
	case "lasts":
		w.lasts, w.exit = span(0), 0
		if len(words) > 1 {
			w.exit = uint8(number(1))
		}
	case "ask":
		w.step(host(0), Ask{Job: word(1), Token: 7})
	case "pause", "resume":
		w.step(host(0), SetPaused{Job: word(1), Paused: d.Cmd == "pause", Token: 8})
	case "table":
		w.step(host(0), TableChanged{Jobs: jobLines(w.t, d)})
	case "cut", "heal":
		w.cutOff(number(0), d.Cmd == "cut")
	case "lost", "found":
		for kind := wire.JobClaim; kind <= wire.LedgerPart; kind++ {
			if kind.String() == word(0) {
				w.keep[kind] = d.Cmd == "lost"
			}
		}
	case "full":
		host(0).full = true
	case "free":
		host(0).full = false
		w.step(host(0), SaveRecovered{})
	case "leases-end":
		host(0).leaseEnd = true
	case "crash":
		w.crash(host(0))
	case "boot":
		w.boot(host(0), w.table())
	case "wipe":
		host(0).disk, host(0).id = nil, wire.ID{host(0).id[0], 0xff}
	case "gossip":
		w.gossip(host(0), host(1))
	case "frames":
		w.frames = word(0) == "on"
	case "explain":
		for _, e := range host(0).s.Explain() {
			fmt.Fprintf(&w.trace, "%s: %s\n", e.Job, short(e))
		}
	case "stalled":
		fmt.Fprintf(&w.trace, "%t\n", host(0).s.Stalled())
	case "ledger":
		w.showLedger(host(0))
	default:
		d.Fatalf(w.t, "%s is no command", d.Cmd)
	}
}

// table is that of any host that runs.
func (w *lan) table() []Job {
	for _, h := range w.hosts {
		if h.s != nil {
			return h.s.Jobs()
		}
	}
	w.t.Fatal("no host runs")
	return nil
}

func (w *lan) showLedger(h *lanHost) {
	for _, name := range h.s.ledger.Jobs() {
		e, _ := h.s.Entry(name)
		fmt.Fprintf(&w.trace, "%s floor=%s paused=%t\n", name, shortTime(e.Floor.Time()), e.Switch.Paused)
		for _, r := range e.Runs {
			fmt.Fprintf(&w.trace, "  %s epoch=%d n%d %v %v\n", keyText(r.Key), r.Epoch, r.Owner[0], r.Phase, r.Outcome)
		}
	}
}
