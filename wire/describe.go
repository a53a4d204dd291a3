package wire

import (
	"strconv"
	"strings"
)

// String gives the frame as one line for logs, transcripts and panics: what it
// is, from whom, about which epoch, and the body fields that hold for its
// kind. What is the same in every frame of a member (cluster, configuration,
// priority, incarnation, nonce) is left out. Transcripts compare the text, so
// its words and their order are kept.
func (f *Frame) String() string {
	t := make(text, 0, 128)
	t = append(t, f.Kind.String()...)
	t.word("from", f.Sender.Short())
	t.number("seq", uint64(f.Seq))
	t.number("round", uint64(f.Round))
	t.word("epoch", f.Epoch.String())
	t.body(f)
	if f.Flags != 0 {
		t.word("flags", f.Flags.String())
	}
	return string(t)
}

// text is a line that grows by " key=value".
type text []byte

func (t *text) word(key, value string) {
	*t = append(*t, ' ')
	*t = append(*t, key...)
	*t = append(*t, '=')
	*t = append(*t, value...)
}

func (t *text) number(key string, v uint64) { t.word(key, strconv.FormatUint(v, 10)) }

func (t *text) span(key string, ms uint32) { t.word(key, strconv.FormatUint(uint64(ms), 10)+"ms") }

// age differs from span in that the highest value is no number.
func (t *text) age(key string, ms uint32) {
	if ms == AgeUnknown {
		t.word(key, "unknown")
		return
	}
	t.span(key, ms)
}

func (t *text) echo(f *Frame) { t.number("echo", uint64(f.EchoSeq)) }

func (t *text) body(f *Frame) {
	switch f.Kind {
	case Election:
		t.word("reason", f.Reason.String())
		t.number("attempt", uint64(f.Attempt))
		t.age("hbAge", f.HeartbeatAge)
		t.number("failed", f.FailedCounter)
	case Canvass:
		t.word("reason", f.Reason.String())
		t.number("attempt", uint64(f.Attempt))
		t.age("hbAge", f.HeartbeatAge)
		t.number("roster", uint64(f.RosterVersion))
	case Answer:
		t.word("verdict", f.Verdict.String())
		t.number("attempt", uint64(f.Attempt))
		t.span("eta", f.ETA)
		t.age("hbAge", f.HeartbeatAge)
		t.echo(f)
	case Coordinator:
		t.word("phase", f.Phase.String())
		t.span("lease", f.Lease)
		t.number("roster", uint64(f.RosterVersion))
	case CoordAck:
		t.word("verdict", f.AckVerdict.String())
		t.span("remain", f.Remain)
		t.echo(f)
	case Cid:
		t.word("state", f.Knowledge.String())
		t.age("hbAge", f.HeartbeatAge)
		t.span("remain", f.Remain)
	case Heartbeat:
		t.span("lease", f.Lease)
		t.span("interval", f.Interval)
		t.number("roster", uint64(f.RosterVersion))
		if f.Late > 0 {
			t.span("late", f.Late)
		}
	case HeartAck:
		t.rosterFlags(f.AckFlags)
		t.echo(f)
	case Nominate:
		t.word("reason", f.Reason.String())
	case Resign:
		t.word("reason", f.Reason.String())
		t.word("successor", nameOrNobody(f.Successor))
	case ResignAck:
		t.echo(f)
	case Probe:
		t.word("purpose", f.Purpose.String())
	case ProbeAck:
		t.word("standing", f.Standing.String())
		t.age("hbAge", f.HeartbeatAge)
		t.echo(f)
	case Ready:
		t.word("ready", strconv.FormatBool(f.IsReady))
		t.echo(f)
	case Roster:
		t.number("version", uint64(f.RosterVersion))
		t.word("phase", nameOf(rosterPhaseNames[:], int(f.Phase), "phase"))
		t.word("voters", shortNames(f.Voters[:min(f.Count, MaxVoters)]))
	case RosterAck:
		t.number("version", uint64(f.RosterVersion))
		t.word("verdict", f.AckVerdict.String())
		t.echo(f)
	default:
		t.jobs(f)
	}
}

// jobs is body for the kinds that have a payload, or belong to one. What a payload says is
// the business of package jobs, or agent.
func (t *text) jobs(f *Frame) {
	switch f.Kind {
	case JobClaim, JobRecord:
		t.number("bytes", uint64(len(f.Payload)))
	case JobWitness:
		t.number("why", uint64(f.Why))
	case LedgerQuery:
		t.digest(f)
		t.number("place", uint64(f.Place))
	case LedgerPart:
		t.digest(f)
		t.part(f)
	case Clients:
		t.part(f)
	}
}

func (t *text) part(f *Frame) {
	t.number("place", uint64(f.Place))
	t.number("parts", uint64(f.Parts))
	t.number("bytes", uint64(len(f.Payload)))
}

func (t *text) digest(f *Frame) { t.word("digest", strconv.FormatUint(f.Digest, 16)) }

func (t *text) rosterFlags(flags uint8) {
	if flags&KnowsNoRoster != 0 {
		t.word("roster", "none")
	}
	if flags&RosterBehind != 0 {
		t.word("roster", "behind")
	}
	if flags&OutOfRoster != 0 {
		t.word("roster", "out")
	}
}

func shortNames(ids []ID) string {
	if len(ids) == 0 {
		return "none"
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.Short()
	}
	return strings.Join(names, ",")
}

func nameOrNobody(id ID) string {
	if id.IsZero() {
		return "none"
	}
	return id.Short()
}

var flagNames = [...]string{"ack-req", "retx", 3: "hop", "draining", "active", "fresh", "wait"}

// String gives the set flags' words, joined by commas, or "none".
func (f Flags) String() string {
	f &^= reserved
	if f == 0 {
		return "none"
	}
	words := make([]string, 0, len(flagNames))
	for bit, name := range flagNames {
		if f&(1<<bit) != 0 {
			words = append(words, name)
		}
	}
	return strings.Join(words, ",")
}
