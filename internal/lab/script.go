package lab

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A script has one command in each line; # begins a comment.
//
//	elect                 wait until all agents that can be reached agree on a leader
//	kill leader           SIGKILL; leader, or a node: n3
//	stop n3               SIGTERM, and wait until it has gone
//	pause leader 2s       SIGSTOP, and SIGCONT after that time; without a time it sleeps on
//	continue n3           SIGCONT
//	restart n3            start it again
//	handover n3           have it hand over to another
//	cut n3                cut its cable, silently (--netns)
//	carrier n3            pull its cable: the carrier goes (--netns)
//	plug n3               put it back in
//	wait 2s
//	expect leader n4      wait until all agree on n4

// command is one line of a script.
type command struct {
	place  string // file:line
	verb   string
	target string        // a node, or leader
	length time.Duration // of wait, and of pause
}

const targetLeader = "leader"

// verbs says what each verb takes.
var verbs = map[string]struct {
	usage          string
	target, length bool
	leader         bool // may be aimed at whoever leads
	optional       bool // the length may be left out
}{
	"elect":    {usage: "elect"},
	"kill":     {usage: "kill leader|nK", target: true, leader: true},
	"stop":     {usage: "stop leader|nK", target: true, leader: true},
	"pause":    {usage: "pause leader|nK [DURATION]", target: true, leader: true, length: true, optional: true},
	"continue": {usage: "continue nK", target: true},
	"restart":  {usage: "restart nK", target: true},
	"handover": {usage: "handover leader|nK", target: true, leader: true},
	"cut":      {usage: "cut leader|nK", target: true, leader: true},
	"carrier":  {usage: "carrier leader|nK", target: true, leader: true},
	"plug":     {usage: "plug nK", target: true},
	"wait":     {usage: "wait DURATION", length: true},
	"expect":   {usage: "expect leader nK", target: true},
}

// parseScript reads a whole script for a lab of n nodes; name is the file's, for errors. Every error says where.
func parseScript(name string, r io.Reader, n int, cables bool) ([]command, error) {
	var commands []command
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		c, err := parseCommand(fields, n)
		if err == nil && !cables && slices.Contains([]string{"cut", "carrier", "plug"}, c.verb) {
			err = fmt.Errorf("%s needs agents with cables: start the lab with --netns", c.verb)
		}
		if err != nil {
			return nil, usage("%s:%d: %w", name, number, err)
		}
		c.place = fmt.Sprintf("%s:%d", name, number)
		commands = append(commands, c)
	}
	if err := lines.Err(); err != nil {
		return nil, usage("read script %s: %w", name, err)
	}
	if len(commands) == 0 {
		return nil, usage("%s: no commands in it, expected for example: elect", name)
	}
	return commands, nil
}

func parseCommand(fields []string, n int) (command, error) {
	c := command{verb: fields[0]}
	v, ok := verbs[c.verb]
	if !ok {
		return c, fmt.Errorf("unknown command %q, expected elect, kill, stop, pause, continue, restart, handover, cut, carrier, plug, wait or expect", c.verb)
	}
	args := fields[1:]
	if c.verb == "expect" && len(args) > 0 {
		if args[0] != "leader" {
			return c, fmt.Errorf("expect %s: expected %q", args[0], v.usage)
		}
		args = args[1:]
	}
	if v.target {
		if len(args) == 0 {
			return c, fmt.Errorf("%s needs a node: expected %q", c.verb, v.usage)
		}
		if err := checkTarget(args[0], v.leader, n); err != nil {
			return c, fmt.Errorf("%s %s: %w", c.verb, args[0], err)
		}
		c.target, args = args[0], args[1:]
	}
	if v.length && (len(args) > 0 || !v.optional) {
		if len(args) == 0 {
			return c, fmt.Errorf("%s needs a duration: expected %q", c.verb, v.usage)
		}
		d, err := time.ParseDuration(args[0])
		if err != nil || d <= 0 {
			return c, fmt.Errorf("%s: duration %q, expected for example 500ms or 2s", c.verb, args[0])
		}
		c.length, args = d, args[1:]
	}
	if len(args) > 0 {
		return c, fmt.Errorf("%q after %s is too much: expected %q", strings.Join(args, " "), c.verb, v.usage)
	}
	return c, nil
}

func checkTarget(name string, mayLead bool, n int) error {
	if mayLead && name == targetLeader {
		return nil
	}
	digits, ok := strings.CutPrefix(name, "n")
	k, err := strconv.Atoi(digits)
	if !ok || err != nil || k < 1 || k > n || nodeName(k) != name {
		if mayLead {
			return fmt.Errorf("no such node, expected leader or n1 to n%d", n)
		}
		return fmt.Errorf("no such node, expected n1 to n%d", n)
	}
	return nil
}

// nodeName is the name of the kth node, from 1. A higher k has a higher priority.
func nodeName(k int) string { return "n" + strconv.Itoa(k) }

// best is the node that leads if it can.
func (o *Options) best() string {
	if o.Algorithm == "smallest" {
		return nodeName(1)
	}
	return nodeName(o.Nodes)
}

// defaultScript shows what the algorithm is named after: the best node dies, the next one takes over, and the best one
// comes back and takes what it thinks is its own.
func defaultScript(best string, n int, preempt string) string {
	script := "elect\nkill leader\n"
	if n > 1 {
		script += "elect\n"
	}
	script += "restart " + best + "\n"
	if preempt == "never" && n > 1 {
		return script + "elect\n"
	}
	return script + "expect leader " + best + "\n"
}
