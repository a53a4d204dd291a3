package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/record"
)

var replayCommand = command{
	name: "replay", usage: "play the records of hosts again, on one timeline",
	args: "FILE…", maxArgs: 256,
	about: `Steps the real election through what each host was told, and checks that the same comes of it. Then it prints what
		happened on all hosts in order: each step with what the host did. Heartbeats and their answers are left out. Times are
		UTC, by the first host's wall clock; the others' are corrected by the frames that they exchanged. This machine's clock has no
		part in it.

		Exit 0: all of it came out the same. 1: it did not, and the first step that differs is named for each host; or some
		of it could not be replayed.`,
	examples: []string{
		program + " replay alpha.rec beta.rec gamma.rec",
		program + " replay --until 12:03:01.5 alpha.rec beta.rec",
		program + " replay --json --all alpha.rec",
	},
	options: []option{
		{name: "until", value: "TIME", usage: "print no further: 12:03:01.5 or 2026-01-31T12:03:01.5Z, in UTC, or 90s from the first step", fallback: "the end"},
		{name: "all", usage: "print heartbeats and their answers too"},
		jsonOption,
	},
	action: replay,
}

// maxRecord bounds the file that is read: the largest ring, and what is around it.
const maxRecord = 1<<30 + 1<<22

func replay(c *call) error {
	if c.NArg() == 0 {
		return usage("take one out with "+program+" record > FILE", "which records? a FILE is missing")
	}
	records, trouble := readRecords(c.Args().Slice())
	if len(records) == 0 {
		return errors.Join(trouble...)
	}
	timeline := record.NewTimeline(records)
	until, err := c.until(timeline.Reports())
	if err != nil {
		return err
	}
	if err := c.printTimeline(timeline, until); err != nil {
		return err
	}
	for _, r := range timeline.Reports() {
		trouble = append(trouble, reportTrouble(&r)...)
		if err := c.printReport(&r, timeline.Reports()[0].Host); err != nil {
			return err
		}
	}
	return errors.Join(trouble...)
}

// readRecords reads what can be replayed together, and says what is left out.
func readRecords(files []string) (records []*record.Record, trouble []error) {
	var names []string // of records' files
	for _, file := range files {
		r, err := readRecord(file)
		if err == nil {
			err = fits(r, records, names)
		}
		if err != nil {
			trouble = append(trouble, fmt.Errorf("%s: %w: left out", file, err))
			continue
		}
		records, names = append(records, r), append(names, file)
	}
	return records, trouble
}

func readRecord(file string) (*record.Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err) // without the name, which comes first
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxRecord:
		return nil, fmt.Errorf("it is longer than %d MiB", maxRecord>>20)
	}
	r, err := record.Parse(b)
	if errors.Is(err, record.ErrSchema) {
		return nil, fmt.Errorf("%w (it is %s, this is %s)", err, strconv.Quote(r.Version), strconv.Quote(thisBuild().Version))
	}
	return r, err
}

// fits refuses a record that does not belong to the others.
func fits(r *record.Record, others []*record.Record, files []string) error {
	if len(others) > 0 && r.Cluster != others[0].Cluster {
		return fmt.Errorf("it is of cluster %s, and %s of %s", strconv.Quote(r.Cluster), files[0], strconv.Quote(others[0].Cluster))
	}
	i := slices.IndexFunc(others, func(o *record.Record) bool { return o.ID == r.ID && o.Nonce == r.Nonce })
	if i >= 0 {
		return fmt.Errorf("it is of %s, in the same life as %s", r.Host(), files[i])
	}
	return nil
}

// until is the last time to be printed; zero: there is none.
func (c *call) until(reports []record.Report) (time.Time, error) {
	if !c.IsSet("until") {
		return time.Time{}, nil
	}
	text := c.String("until")
	from := reports[0].From
	for _, r := range reports {
		if r.Steps > 0 && r.From.Before(from) {
			from = r.From
		}
	}
	from = from.UTC()
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if t, err := time.Parse("15:04:05", text); err == nil {
		day := from.Truncate(24 * time.Hour)
		at := day.Add(t.Sub(t.Truncate(24 * time.Hour)))
		if at.Before(from) {
			at = at.Add(24 * time.Hour) // past midnight
		}
		return at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return from.Add(d), nil
	}
	return time.Time{}, usage("", "--until is %s: expected 12:03:01.5, 2026-01-31T12:03:01.5Z, or a time from the first step such as 90s", strconv.Quote(text))
}

// printTimeline prints each line as it comes: a record may be long.
func (c *call) printTimeline(timeline *record.Timeline, until time.Time) (err error) {
	width := 0
	for _, r := range timeline.Reports() {
		width = max(width, len(r.Host))
	}
	for line := range timeline.Lines {
		switch {
		case !until.IsZero() && line.At.After(until):
			return nil
		case line.IsRoutine && !c.Bool("all"):
			continue
		case c.Bool("json"):
			err = c.printLine(jsonStep{Type: "step", Line: line})
		default:
			err = c.print(lineText(&line, width))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replayLayout is a time of the timeline: of frames, microseconds tell the order.
const replayLayout = "2006-01-02 15:04:05.000000"

// lineText is one step: what the host was told, and below it what it did.
func lineText(l *record.Line, width int) string {
	var b strings.Builder
	head := fmt.Sprintf("%s  %-*s  ", l.At.UTC().Format(replayLayout), width, l.Host)
	fmt.Fprintf(&b, "%s%s\n", head, l.Event)
	for _, e := range l.Effects {
		fmt.Fprintf(&b, "%*s→ %s\n", len(head), "", e)
	}
	return b.String()
}

type jsonStep struct {
	Type string `json:"type"` // "step"
	record.Line
}

type jsonReport struct {
	Type        string        `json:"type"` // "host"
	Host        string        `json:"host"`
	Life        uint32        `json:"life"`
	Steps       uint64        `json:"steps"`
	From        time.Time     `json:"from,omitzero"`
	To          time.Time     `json:"to,omitzero"`
	Same        bool          `json:"same"`
	Differs     *record.Line  `json:"differs,omitempty"`
	Recorded    string        `json:"recorded,omitempty"`
	Came        string        `json:"came,omitempty"`
	Flaws       []string      `json:"flaws"`
	CorrectedNS time.Duration `json:"clock_corrected_ns"`
	WithinNS    time.Duration `json:"clock_within_ns"`
	Frames      int           `json:"clock_frames"`
}

// printLine prints v as one line of JSON.
func (c *call) printLine(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode line: %w", err)
	}
	return c.print(string(line) + "\n")
}

// printReport says what came of one host's record.
func (c *call) printReport(r *record.Report, first string) error {
	if c.Bool("json") {
		return c.printLine(jsonReport{Type: "host", Host: r.Host, Life: r.Life, Steps: r.Steps, From: r.From.UTC(), To: r.To.UTC(), Same: r.First == nil, Differs: r.First,
			Recorded: r.Recorded, Came: r.Came, Flaws: append([]string{}, r.Flaws...), CorrectedNS: r.Corrected, WithinNS: r.Within, Frames: r.Frames})
	}
	result := c.painted(green, "the same came of it")
	switch {
	case r.Steps == 0:
		result = c.painted(yellow, "nothing could be replayed")
	case r.First != nil:
		result = c.painted(red, fmt.Sprintf("step %d differs", r.First.Number))
	}
	text := fmt.Sprintf("%s, life %d: %d steps", r.Host, r.Life, r.Steps)
	if r.Steps > 0 {
		text += fmt.Sprintf(", %s to %s", r.From.UTC().Format(replayLayout), r.To.UTC().Format("15:04:05.000000"))
	}
	return c.print(text + ": " + result + clockText(r, first) + "\n")
}

// clockText says what was wrong with a host's clock, as far as frames tell.
func clockText(r *record.Report, first string) string {
	if r.Frames == 0 {
		return ""
	}
	than, by := "behind", r.Corrected
	if by < 0 {
		than, by = "ahead of", -by
	}
	text := fmt.Sprintf("; its clock was %v %s %s's, by %d frames", by.Round(time.Microsecond), than, first, r.Frames)
	if r.Within > 0 {
		text += fmt.Sprintf(", within %v", r.Within.Round(time.Microsecond))
	}
	return text
}

// reportTrouble is what is wrong with one host's record, a line each.
func reportTrouble(r *record.Report) (trouble []error) {
	for _, flaw := range r.Flaws {
		trouble = append(trouble, fmt.Errorf("%s, life %d: %s", r.Host, r.Life, flaw))
	}
	if r.First != nil {
		trouble = append(trouble, fmt.Errorf("%s, life %d: step %d at %s differs: at %s it was recorded: %s; now came: %s", r.Host, r.Life, r.First.Number,
			r.First.At.UTC().Format(replayLayout), r.First.Event, r.Recorded, r.Came))
	}
	return trouble
}
