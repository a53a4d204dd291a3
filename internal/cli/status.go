package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
)

var statusCommand = command{
	name: "status", usage: "show what the agent on this host knows and promises",
	examples: []string{program + " status", program + " status --json", program + " status --watch"},
	options: []option{jsonOption,
		{name: "watch", short: "w", usage: "show it anew every second, until interrupted; with --json one line each"}, socketOption},
	action: func(c *call) error {
		if c.Bool("watch") {
			return watchStatus(c)
		}
		s, err := c.client().Status(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(s)
		}
		return c.print(c.statusText(s, time.Now()))
	},
}

// watchStatus goes on while no agent answers: it may come back.
func watchStatus(c *call) error {
	const clearScreen = "\x1b[H\x1b[2J"
	client := c.client()
	for {
		s, err := client.Status(c.Context.Context)
		text := ""
		switch {
		case err != nil && !errors.Is(err, control.ErrUnreachable):
			return err
		case err != nil && c.Bool("json"):
			c.report(err) // a reader of JSON finds a gap, and a person the reason
		case err != nil:
			text = errorLines(err)
		case c.Bool("json"):
			line, _ := json.Marshal(s) // the client decoded it, so it has a JSON form
			text = string(line) + "\n"
		default:
			text = c.statusText(s, time.Now())
		}
		if isTerminal(c.out) && !c.Bool("json") {
			text = clearScreen + text
		}
		if err := c.print(text); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// statusText is the view for people, in the words of the log.
func (c *console) statusText(s control.Status, now time.Time) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(label, text string) { fmt.Fprintf(table, "%s\t%s\n", label, text) }
	row("node", fmt.Sprintf("%s, %s, priority %d, cluster %s", s.Self.Name, s.Self.Addr, s.Self.Priority, s.Cluster))
	row("role", c.roleText(s, now))
	row("leader", c.leaderText(s))
	row("epoch", epochText(s.Epoch))
	row("lease", leaseText(s))
	if s.LeaderIsSelf || s.Degraded { // of others it would be no more than that they know a leader
		row("ready", c.readyText(s))
	}
	row("mode", s.Mode+": "+s.Promise)
	if s.Quorum != nil {
		row("voters", c.votersText(s))
		row("quorum", fmt.Sprintf("%d answer, %d needed", s.Quorum.Have, s.Quorum.Need))
	}
	row("members", c.membersRow(s))
	for _, check := range s.Checks {
		row("check", c.hostCheckText(check, now))
	}
	for _, r := range s.Resources {
		row("resource", c.resourceText(r))
	}
	row("last hook", c.hookText(s.LastHook, now))
	if s.Keeper != nil {
		row("keeper", c.keeperText(*s.Keeper))
	}
	if s.Reader != nil {
		row("reader", c.readerText(*s.Reader))
	}
	if s.Scheduling.Policy != "" {
		row("scheduling", schedulingText(s.Scheduling))
	}
	row("encryption", s.Encryption)
	if s.Hosts.Listed > 0 {
		row("hosts", fmt.Sprintf("%d may join, list %s", s.Hosts.Listed, s.Hosts.Digest))
	}
	row("agent", fmt.Sprintf("version %s, up %s, algorithm %s, preempt %s, profile %s, id %s",
		s.Version, span(seconds(s.Uptime)), s.Algorithm, s.Preempt, s.Profile, s.Self.ID))
	for _, note := range s.Notes {
		row("note", c.painted(yellow, note))
	}
	_ = table.Flush() // a Builder takes everything
	return b.String()
}

func (c *console) roleText(s control.Status, now time.Time) string {
	role := s.Role
	if s.LeaderIsSelf {
		role = c.painted(green, role)
	}
	text := fmt.Sprintf("%s for %s, cause %s", role, span(now.Sub(s.Since)), s.Cause)
	if s.State != s.Role {
		text += ", state " + s.State
	}
	return text
}

func (c *console) leaderText(s control.Status) string {
	switch {
	case s.Leader == nil:
		text := c.painted(yellow, "none known")
		if s.WhyNoLeader != "" {
			text += ": " + s.WhyNoLeader
		}
		return text
	case s.LeaderIsSelf:
		return s.Leader.Name + ", this node"
	}
	return s.Leader.Name + ", " + s.Leader.Addr
}

func (c *console) hostCheckText(check control.Check, now time.Time) string {
	text := fmt.Sprintf("%s %s for %s", check.Name, check.State, span(now.Sub(check.Since)))
	if check.Why != "" {
		text += ": " + config.Printable(check.Why)
	}
	if check.State == "passes" {
		return text
	}
	return c.painted(yellow, text) + ", " + check.OnFail
}

// resourceText says whether this host has what it is to have while it leads.
func (c *console) resourceText(r control.Resource) string {
	text := r.Name
	if r.What != "unit "+r.Name {
		text += ", " + config.Printable(r.What)
	}
	more := ""
	if r.Text != "" {
		more = ", " + config.Printable(r.Text)
	}
	if !r.Here {
		return text + ": not here" + more
	}
	return c.painted(green, text+": here"+more)
}

// votersText is the roster: who may vote, and who of them is not here.
func (c *console) votersText(s control.Status) string {
	text := fmt.Sprintf("%d expected", s.Expect)
	if s.Roster == nil {
		return text + ", no roster yet"
	}
	names := make([]string, len(s.Roster.Voters))
	for i, v := range s.Roster.Voters {
		names[i] = v.Name
		if v.Name == "" {
			names[i] = v.ID[:min(len(v.ID), 8)]
		}
		if !v.Alive {
			names[i] = c.painted(red, names[i]+" (not here)")
		}
	}
	const versionsPerEpoch = 16 // a version is 16 × the epoch whose leader made it + the number of its change (protocol 4.4)
	made := ""
	if epoch := s.Roster.Version / versionsPerEpoch; epoch > 0 {
		made = fmt.Sprintf(" as of epoch %d", epoch)
	}
	if !s.Roster.Formed {
		made += ", not formed yet"
	}
	return fmt.Sprintf("%s; roster%s: %s", text, made, strings.Join(names, ", "))
}

func (c *console) membersRow(s control.Status) string {
	text := fmt.Sprintf("%d alive of %d known", s.Alive, s.Members)
	if len(s.Silent) > 0 {
		text += "; " + c.painted(yellow, "not heard lately") + ": " + strings.Join(s.Silent, ", ")
	}
	return text
}

func (c *console) hookText(h *control.Hook, now time.Time) string {
	if h == nil {
		return "none yet"
	}
	outcome := "succeeded"
	if !h.OK {
		outcome = c.painted(red, "failed") + ", " + hookEnd(h)
	}
	if h.TakenOver {
		outcome += " while the agent was dead or silent"
	}
	if h.Attempts > 1 {
		outcome += fmt.Sprintf(" at attempt %d", h.Attempts)
	}
	took := time.Duration(h.TookMS * float64(time.Millisecond))
	return fmt.Sprintf("%s %s in %s, epoch %d, %s ago", h.Event, outcome, span(took), h.Epoch.Counter, span(now.Sub(h.Time)))
}

// hookEnd says how a hook failed. One that was ended, or never began, has no exit
// status of its own.
func hookEnd(h *control.Hook) string {
	if h.Exit < 0 && h.Error != "" {
		return config.Printable(h.Error) + ","
	}
	return "exit " + strconv.Itoa(h.Exit)
}

// readyText says what keeps a leader from being one.
func (c *console) readyText(s control.Status) string {
	switch {
	case s.Ready && s.Degraded:
		return c.painted(yellow, "yes, degraded") + ": it should not lead now, and nobody else can"
	case s.Ready:
		return "yes"
	case s.Degraded && len(s.Bars) > 0:
		return c.painted(red, "no, degraded") + ": it should not lead now, and nobody else can"
	case s.Degraded && len(without(s)) > 0:
		return c.painted(red, "no, degraded") + ": without " + strings.Join(without(s), ", ") + ", and nobody else can lead"
	case s.Degraded:
		return c.painted(red, "no, degraded") + ": the become-leader hook failed, and nobody else can lead"
	case s.LeaderIsSelf && len(without(s)) > 0:
		return "no: without " + strings.Join(without(s), ", ")
	case s.LeaderIsSelf:
		return "no: the become-leader hook has not succeeded"
	}
	return "no"
}

// without names what a leader must have and has not.
func without(s control.Status) (names []string) {
	for _, r := range s.Resources {
		if !r.Here && r.OnFail != "stay" {
			names = append(names, r.Name)
		}
	}
	return names
}

func (c *console) keeperText(k control.Keeper) string {
	switch {
	case k.Error != "":
		return c.painted(red, "none") + ": " + k.Error
	case k.Process == 0:
		return "starting"
	}
	return fmt.Sprintf("process %d", k.Process)
}

func (c *console) readerText(r control.Reader) string {
	switch {
	case r.Error != "":
		return c.painted(red, "none, the network is not answered at "+r.Addr) + ": " + r.Error
	case r.Process == 0:
		return "starting"
	}
	return fmt.Sprintf("process %d, at %s", r.Process, r.Addr)
}

func epochText(e control.Epoch) string {
	if e.Counter == 0 {
		return "none known"
	}
	return strconv.FormatUint(e.Counter, 10) + ", owner " + e.Owner
}

func leaseText(s control.Status) string {
	if s.LeaseRemainMS == nil {
		return "none: this node may not act as leader"
	}
	return span(time.Duration(*s.LeaseRemainMS)*time.Millisecond) + " left"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
