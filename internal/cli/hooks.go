package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
)

var hooksCommand = command{
	name: "hooks", usage: "show, repeat and try the hooks of this host",
	subcommands: []command{hooksListCommand, hooksLogCommand, hooksRunCommand, hooksTestCommand},
}

var hooksListCommand = command{
	name: "list", usage: "show each hook and how it ended last",
	examples: []string{program + " hooks list", program + " hooks list --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		settings, err := c.client().Hooks(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(settings)
		}
		return c.print(c.hooksText(settings, time.Now()))
	},
}

var hooksLogCommand = command{
	name: "log", usage: "show the last runs of hooks and what they printed", args: "[SEQ]", maxArgs: 1, offer: hookRuns,
	about: `Without SEQ a table of the last 50 runs, the newest last; SEQ is the first column, and BULLY_SEQ inside the hook. With
		SEQ that run, and the last 64 KiB of what it printed.`,
	examples: []string{program + " hooks log", program + " hooks log 1", program + " hooks log --tail"},
	options: []option{
		{name: "tail", usage: "show the last lines that each run printed, too"},
		jsonOption, socketOption,
	},
	action: hooksLog,
}

// tailLines is what --tail shows of each run.
const tailLines = 5

func hooksLog(c *call) error {
	if c.NArg() > 0 {
		return hooksLogOne(c, c.Args().First())
	}
	client, ctx := c.client(), c.Context.Context
	runs, err := client.HookRuns(ctx)
	if err != nil {
		return err
	}
	if c.Bool("tail") {
		for i := range runs {
			if run, err := client.HookRun(ctx, runs[i].Seq); err == nil { // else it has just been dropped
				runs[i].Output = lastLines(run.Output, tailLines)
			}
		}
	}
	if c.Bool("json") {
		return c.printJSON(runs)
	}
	return c.print(c.runsText(runs))
}

func hooksLogOne(c *call, arg string) error {
	seq, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || seq == 0 {
		return usage("see "+program+" hooks log", "SEQ is %s: expected the number of a run", strconv.Quote(arg))
	}
	run, err := c.client().HookRun(c.Context.Context, seq)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return c.printJSON(run)
	}
	return c.print(c.runText(run))
}

var hooksRunCommand = command{
	name: "run", usage: "run a hook again, on the running agent", args: "EVENT", maxArgs: 1, offer: hookEvents,
	about: `Runs the hook that belongs to the present state once more, in its turn, with the cause "requested". become-leader runs on the
		leader, lose-leadership on a host that does not lead, leader-change and member-change anywhere. A run that would break the
		order of become and lose is refused with exit code 6. Its outcome counts: a leader whose become-leader hook succeeds
		now is ready, one whose hook fails steps down.

		Exit codes: 0 it succeeded, 1 it failed, 6 refused.`,
	examples: []string{program + " hooks run become-leader", program + " hooks run --json become-leader"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		event, err := c.event()
		if err != nil {
			return err
		}
		progress := c.progress("running the " + string(event) + " hook")
		progress("until it ends")
		run, err := c.client().RunHook(c.Context.Context, string(event))
		progress("")
		if err != nil {
			return err
		}
		if c.Bool("json") {
			err = c.printJSON(run)
		} else {
			err = c.print(c.runText(run))
		}
		if err == nil && !run.OK {
			err = outcome(exitNo)
		}
		return err
	},
}

// event is the argument of run and test.
func (c *call) event() (hooks.Kind, error) {
	events := eventNames()
	event := c.Args().First()
	switch {
	case event == "":
		return "", usage("see "+c.path+" --help", "EVENT is missing: expected %s", oneOf(events))
	case slices.Contains(events, event):
		return hooks.Kind(event), nil
	}
	hint := "see " + c.path + " --help"
	if near := nearest(event, events); near != "" {
		hint = "did you mean " + near + "?"
	}
	return "", usage(hint, "EVENT is %s: expected %s", strconv.Quote(event), oneOf(events))
}

// hooksText is the list for people.
func (c *console) hooksText(settings []control.HookSetting, now time.Time) string {
	var b strings.Builder
	row := func(label, text string) {
		fmt.Fprintf(&b, "  %-10s%s\n", label, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 12)))
	}
	for i, s := range settings {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.Event + "\n")
		row("command", commandText(s))
		if s.Shell != "" || len(s.Argv) > 0 {
			row("check", c.checkText(s.Problem))
			row("last run", c.lastRunText(s, now))
		}
	}
	return b.String()
}

func commandText(s control.HookSetting) string {
	switch {
	case s.Shell != "":
		return strings.TrimSpace(s.Shell)
	case len(s.Argv) > 0:
		words := make([]string, len(s.Argv))
		for i, w := range s.Argv {
			words[i] = key.Quoted(w)
		}
		return strings.Join(words, " ") + ", without a shell"
	}
	return "none"
}

func (c *console) checkText(problem string) string {
	if problem == "" {
		return "ok"
	}
	return c.painted(red, "would be refused: "+problem)
}

func (c *console) lastRunText(s control.HookSetting, now time.Time) string {
	text := "none in the ledger"
	if s.Last != nil {
		text = fmt.Sprintf("%s, run %d, epoch %d, %s ago", c.endText(*s.Last), s.Last.Seq, s.Last.Epoch, span(now.Sub(s.Last.Started)))
	}
	if s.Running {
		text = "runs now; before that: " + text
	}
	return text
}

// endText says how a run ended.
func (c *console) endText(r control.HookRun) string {
	took := span(milliseconds(r.TookMS))
	if r.OK {
		return "succeeded in " + took
	}
	return c.painted(red, "failed") + " after " + took + ": " + r.Error
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// runsText is the ledger for people. What a run printed follows its row.
func (c *console) runsText(runs []control.HookRun) string {
	if len(runs) == 0 {
		return "no hook has run yet\n"
	}
	var rows strings.Builder
	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEQ\tSTARTED\tHOOK\tCAUSE\tEPOCH\tATTEMPT\tTOOK\tEND")
	for _, r := range runs {
		end := "ok"
		if !r.OK {
			end = c.painted(red, r.Error)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Seq, clock(r.Started), r.Event, r.Cause, r.Epoch, r.Attempt,
			span(milliseconds(r.TookMS)), strings.ReplaceAll(end, "\n", "; "))
	}
	_ = table.Flush()
	var b strings.Builder
	for i, row := range slices.Collect(strings.Lines(rows.String())) {
		b.WriteString(row)
		if 0 < i && i <= len(runs) { // 0 is the heading; an agent that is none may have sent words with lines
			b.WriteString(indented(runs[i-1].Output))
		}
	}
	return b.String()
}

// runText is one run for people.
func (c *console) runText(r control.HookRun) string {
	text := fmt.Sprintf("%s, cause %s, epoch %d, attempt %d", r.Event, r.Cause, r.Epoch, r.Attempt)
	if r.Seq > 0 {
		text = fmt.Sprintf("run %d: %s, %s", r.Seq, text, clock(r.Started))
	}
	text += "\n" + c.endText(r) + "\n"
	if lost := r.Printed - int64(len(r.Output)); lost > 0 && r.Output != "" {
		text += fmt.Sprintf("the first %d bytes that it printed are not kept\n", lost)
	}
	return text + indented(r.Output)
}

// indented sets the output of a hook apart. It may hold anything: what would move a
// terminal's cursor is made harmless.
func indented(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		b.WriteString("  | " + harmless(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return b.String()
}

func harmless(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0)) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(line, "\uFFFD"))
}

// lastLines is the end of a text.
func lastLines(text string, n int) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
