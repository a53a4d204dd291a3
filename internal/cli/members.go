package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
)

var membersCommand = command{
	name: "members", usage: "list the members that the agent knows",
	about: `LAST HEARD is when anything of the member reached this host; a leader and its followers talk all the time, others
		every few seconds. A member that is silent for longer is suspect, and after some more seconds dead; a leader is dead once
		this host has given it up. ROLE is what the member does: one that the roster leaves out observes.`,
	examples: []string{program + " members", program + " members --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		members, err := c.client().Members(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(members)
		}
		return c.print(c.membersText(members))
	},
}

// membersText begins with whose view it is. It puts the only coloured column last: a tabwriter counts escape
// sequences as text.
func (c *console) membersText(members []control.Member) string {
	var b strings.Builder
	for _, m := range members {
		if m.Self {
			fmt.Fprintf(&b, "as %s sees it\n", m.Name)
		}
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tADDRESS\tPRIORITY\tROLE\tRTT\tLAST HEARD\tID\tSTATUS")
	for _, m := range members {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%.8s\t%s\n", m.Name, m.Addr, m.Priority, m.Role, roundTrip(m), lastHeard(m), m.ID, c.memberStatus(m))
	}
	_ = table.Flush()
	return b.String()
}

func roundTrip(m control.Member) string {
	if m.RTTMS > 0 {
		return fmt.Sprintf("%.2fms", m.RTTMS)
	}
	return "-"
}

// lastHeard says how old what is known of the member may be.
func lastHeard(m control.Member) string {
	switch {
	case m.Self:
		return "-"
	case m.HeardMS == nil:
		return "never"
	}
	return span(time.Duration(*m.HeardMS)*time.Millisecond) + " ago"
}

// memberStatus is how the member stands, and what is to be known of it besides.
func (c *console) memberStatus(m control.Member) string {
	text := c.painted(map[string]colour{"alive": green, "suspect": yellow, "told": yellow, "dead": red}[m.Status], m.Status)
	if m.Leader {
		text += ", leader"
	}
	if m.Self {
		text += ", this node"
	}
	for _, note := range memberNotes(m) {
		text += ", " + c.painted(yellow, config.Printable(note))
	}
	return text
}

// memberNotes are what a person should know of a member, a few words each.
func memberNotes(m control.Member) (notes []string) {
	note := func(is bool, text string) {
		if is {
			notes = append(notes, text)
		}
	}
	switch {
	case m.Status != "alive":
	case m.Maintenance != nil:
		note(true, strings.TrimSuffix("maintenance: "+*m.Maintenance, ": "))
	default:
		note(m.Draining && m.Voter, "cannot lead now")
	}
	note(m.Mute, "does not answer the election")
	note(m.Relayed, "reached by other hosts alone")
	note(m.Outside && m.Status != "left", "outside the roster")
	notes = append(notes, m.Notes...)
	note(len(m.LacksKeys) > 0, "lacks key "+strings.Join(m.LacksKeys, ", "))
	return notes
}
