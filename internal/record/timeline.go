package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// Timeline is the records of several hosts of one cluster, replayed on one clock. It reads
// them twice: first alone, to hold each against itself and the clocks against each
// other, and then all at once, in order.
type Timeline struct {
	records []*Record
	clocks  []clock
	reports []Report
	names   *strings.Replacer
}

// Report is what came of one host's record.
type Report struct {
	Host      string
	Life      uint32    // of the host, as it counts them
	From, To  time.Time // on the timeline
	Steps     uint64
	Flaws     []string
	Corrected time.Duration // how much was added to the host's own wall clock
	Within    time.Duration // how exactly; 0: not known
	Frames    int           // that taught it; 0: none
	// First is the first step that came out otherwise; nil: none did.
	First *Line
	Difference
}

// Line is one step of the timeline.
type Line struct {
	At        time.Time `json:"time"`
	Host      string    `json:"host"`
	Number    uint64    `json:"step"` // of the host's steps
	Event     string    `json:"event"`
	Effects   []string  `json:"effects"`
	IsRoutine bool      `json:"routine"` // a heartbeat, its answer, time that passes: nothing to read
}

// NewTimeline replays each record by itself. There must be one at least.
func NewTimeline(records []*Record) *Timeline {
	t := &Timeline{records: records, names: names(records)}
	seen := newSightings(records)
	first := make([]Moment, len(records)) // the last of each, in the end
	for i, r := range records {
		report := Report{Host: r.Host(), Life: r.Incarnation}
		player := r.Play()
		for {
			m, more := player.Next()
			if !more {
				break
			}
			if report.Steps++; report.Steps == 1 {
				report.From = m.At
			}
			report.To = m.At
			if seen.note(i, r, &m); m.Difference != nil {
				first[i], report.Difference = m, *m.Difference
			}
		}
		report.Flaws = append(slices.Clone(r.Flaws), player.Flaws()...)
		t.reports = append(t.reports, report)
	}
	t.clocks = clocks(records, seen.transits(records))
	for i := range t.reports {
		t.finish(i, &first[i])
	}
	return t
}

// finish puts a report on the timeline's clock.
func (t *Timeline) finish(i int, first *Moment) {
	report, c := &t.reports[i], t.clocks[i]
	report.Corrected, report.Within, report.Frames = c.corrected, c.within, c.frames
	report.From, report.To = report.From.Add(c.offset), report.To.Add(c.offset)
	if first.Difference != nil {
		line := t.line(i, first)
		report.First = &line
		report.Recorded, report.Came = t.names.Replace(report.Recorded), t.names.Replace(report.Came)
	}
}

// Reports are in the order of the records.
func (t *Timeline) Reports() []Report { return t.reports }

// Lines gives every step of all hosts in order, until yield says that it is enough. What
// came out otherwise is the last of its host.
func (t *Timeline) Lines(yield func(Line) bool) {
	players, next := make([]*Player, len(t.records)), make([]*Moment, len(t.records))
	advance := func(i int) {
		next[i] = nil
		if m, more := players[i].Next(); more {
			next[i] = &m
		}
	}
	for i, r := range t.records {
		players[i] = r.Play()
		advance(i)
	}
	for {
		first := -1
		var at time.Time
		for i, m := range next {
			if m == nil {
				continue
			}
			if mine := m.At.Add(t.clocks[i].offset); first < 0 || mine.Before(at) {
				first, at = i, mine
			}
		}
		if first < 0 || !yield(t.line(first, next[first])) {
			return
		}
		advance(first)
	}
}

func (t *Timeline) line(i int, m *Moment) Line {
	l := Line{At: m.At.Add(t.clocks[i].offset).UTC(), Host: t.records[i].Host(), Number: m.Number, Effects: []string{}, IsRoutine: m.isRoutine()}
	l.Event = t.names.Replace(eventText(m.Event))
	for _, e := range m.Effects {
		if send, ok := e.(election.Send); ok {
			l.Effects = append(l.Effects, t.names.Replace(fmt.Sprintf("send %s to %v", withoutSender(send.Frame.String()), send.To)))
			continue
		}
		l.Effects = append(l.Effects, t.names.Replace(e.String()))
	}
	return l
}

func eventText(ev election.Event) string {
	if e, ok := ev.(election.Received); ok {
		return fmt.Sprintf("received %s from %s", withoutSender(e.Frame.String()), e.Frame.Sender.Short())
	}
	return ev.String()
}

// withoutSender leaves out of a frame's text what is said beside it.
func withoutSender(text string) string {
	kind, rest, _ := strings.Cut(text, " from=")
	_, rest, _ = strings.Cut(rest, " ")
	return kind + " " + rest
}

// isRoutine: this step is of a leadership at rest.
func (m *Moment) isRoutine() bool {
	switch e := m.Event.(type) {
	case election.Tick, election.HealthChanged, election.DiskTimed:
	case election.Received:
		if !isRoutine(e.Frame.Kind) {
			return false
		}
	default:
		return false
	}
	return m.Difference == nil && !slices.ContainsFunc(m.Effects, func(e election.Effect) bool {
		switch e := e.(type) {
		case election.Send:
			return !isRoutine(e.Frame.Kind)
		case election.LeaseUntil, election.Counted:
			return false
		}
		return true
	})
}

// Host is what a record's host is called.
func (r *Record) Host() string {
	if isName(r.Self.Name) {
		return r.Self.Name
	}
	return r.ID.Short()
}

// isName: it is one that a host may have. In a file there may be any.
func isName(s string) bool {
	isOdd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}
	return s != "" && len(s) <= 63 && !strings.ContainsFunc(s, isOdd)
}

// names has members' names stand for their ids and addresses.
func names(records []*Record) *strings.Replacer {
	var pairs []string
	known := map[string]bool{}
	add := func(text, name string) {
		if text != "" && isName(name) && !known[text] {
			known[text] = true
			pairs = append(pairs, text, name)
		}
	}
	for _, r := range records {
		for _, n := range append([]Name{r.Self}, r.Members...) {
			if n.Addr.IsValid() {
				add(n.Addr.String(), n.Name)
			}
			add(n.ID[:min(len(n.ID), 8)], n.Name)
		}
	}
	return strings.NewReplacer(pairs...)
}
