package cli

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab"
)

var labCommand = command{
	name: "lab", usage: "run a cluster of real agents on this host and break it",
	about: `Starts agents as child processes on loopback and shows them in a live table; keys inflict faults on them. With
		--script it plays a script. With --fault it inflicts one fault on the leader again and again, and prints how long it
		took from the fault to the next leader's hook. With --watch it counts changes of leader, in the weather that --loss
		and --delay make. At the end there is a verdict.`,
	examples: []string{
		program + " lab",
		program + " lab --nodes 5 --fault kill --repeat 20",
		program + " lab --page",
		program + " lab --netns --fault cut --repeat 20",
		program + " lab --nodes 5 --mode quorum --netns --loss 10 --watch 2m",
	},
	options: []option{
		{name: "nodes", value: "N", usage: "how many agents", fallback: "3"},
		{name: "netns", usage: "give each agent a network namespace, whose cable cut pulls; needs root"},
		{name: "script", value: "FILE", usage: "play this script"},
		{name: "fault", value: "FAULT,…", offer: fixed("kill", "stop", "pause", "handover", "cut", "carrier"), usage: "inflict kill, stop, pause, handover, cut or carrier on the leader"},
		{name: "repeat", value: "K", usage: "how often each fault is inflicted", fallback: "10"},
		{name: "watch", value: "TIME", usage: "do nothing for so long but count changes of leader"},
		{name: "loss", value: "PERCENT", usage: "share of frames that are lost on their way; needs --netns"},
		{name: "delay", value: "TIME", usage: "how long a frame takes; needs --netns"},
		{name: "jitter", value: "TIME", usage: "how much the delay varies, either way"},
		{name: "seed", value: "N", usage: "of the chance behind loss and jitter", fallback: "another one each time"},
		{name: "busy", value: "N", usage: "processes that use up processors during --watch or --fault"},
		{name: "page", value: "ADDR", optional: true, usage: "serve the live page on this host alone, with buttons that kill, stop, pause and cut"},
		{name: "mode", value: "MODE", offer: fixed("available", "quorum"), usage: "available or quorum", fallback: "available"},
		{name: "expect", value: "N", usage: "voters of quorum mode", fallback: "all"},
		{name: "algorithm", value: "NAME", offer: fixed("classic", "enhanced", "smallest"), usage: "classic, enhanced or smallest", fallback: "classic"},
		{name: "profile", value: "NAME", offer: fixed("lan", "fast", "wan"), usage: "timers of the agents: lan, fast or wan", fallback: "lan"},
		{name: "scheduling", value: "POLICY", offer: fixed("auto", "realtime", "normal"), usage: "of the agents: auto, realtime or normal", fallback: "auto"},
		{name: "preempt", value: "POLICY", offer: fixed("priority", "always", "never"), usage: "priority, always or never", fallback: "as suits the fault"},
		{name: "settle", value: "TIME", usage: "how long an agent listens before its first election", fallback: "by the number of nodes"},
		{name: "lose-hook", value: "TIME", usage: "how long the lose-leadership hook takes", fallback: "a moment"},
		{name: "insecure", usage: "agents without a key; else the lab makes one for them"},
		{name: "keep", usage: "leave the directory with states and logs behind"},
		{name: "json", usage: "print one JSON document at the end"},
	},
	action: runLab,
}

func runLab(c *call) error {
	options, err := c.labOptions()
	if err != nil {
		return err
	}
	err = lab.Run(c.Context.Context, options) // which heeds the signals: its agents must not outlive a Ctrl-C
	if code := exitCode(err); code == lab.ExitInterrupted {
		fmt.Fprintln(c.err, err) // that was the user's wish, and no error
		return outcome(code)
	}
	return err
}

func (c *call) labOptions() (lab.Options, error) {
	binary, err := os.Executable()
	if err != nil {
		return lab.Options{}, fmt.Errorf("find this program's own file: %w", err)
	}
	nodes, err := c.number("nodes", 3)
	if err != nil {
		return lab.Options{}, err
	}
	repeat, err := c.number("repeat", 0)
	if err != nil {
		return lab.Options{}, err
	}
	settle, err := c.duration("settle")
	if err != nil {
		return lab.Options{}, err
	}
	in, _ := c.in.(*os.File)
	o := lab.Options{
		Nodes: nodes, Binary: binary, Netns: c.Bool("netns"), Script: c.String("script"), Fault: c.String("fault"), Repeat: repeat,
		Profile: c.String("profile"), Preempt: c.String("preempt"), Settle: settle, JSON: c.Bool("json"), Keep: c.Bool("keep"),
		Insecure: c.Bool("insecure"), Mode: c.String("mode"), Scheduling: c.String("scheduling"), Algorithm: c.String("algorithm"),
		Page: c.IsSet("page"), PageAddr: c.String("page"),
		In: in, Out: c.out, Err: c.err, Interactive: isTerminal(c.in) && isTerminal(c.out) && !c.Bool("json"),
	}
	err = c.labWeather(&o)
	return o, err
}

// labWeather fills in the numbers that have no default of the command line's own.
func (c *call) labWeather(o *lab.Options) (err error) {
	for flag, value := range map[string]*time.Duration{"watch": &o.Watch, "delay": &o.Delay, "jitter": &o.Jitter, "lose-hook": &o.LoseHook} {
		if *value, err = c.duration(flag); err != nil {
			return err
		}
	}
	for flag, value := range map[string]*int{"busy": &o.Busy, "expect": &o.Expect} {
		if *value, err = c.number(flag, 0); err != nil {
			return err
		}
	}
	if o.Seed, err = c.unsigned("seed"); err != nil || !c.IsSet("loss") {
		return err
	}
	if o.Loss, err = strconv.ParseFloat(c.String("loss"), 64); err != nil {
		return usage("", "--loss is %s: expected a number of percent", strconv.Quote(c.String("loss")))
	}
	return nil
}

// unsigned parses a flag's value; 0 when it was not given.
func (c *call) unsigned(flag string) (uint64, error) {
	if !c.IsSet(flag) {
		return 0, nil
	}
	n, err := strconv.ParseUint(c.String(flag), 10, 64)
	if err != nil || n == 0 {
		return 0, usage("", "--%s is %s: expected a number from 1", flag, strconv.Quote(c.String(flag)))
	}
	return n, nil
}

// number parses a flag's value; fallback when it was not given.
func (c *call) number(flag string, fallback int) (int, error) {
	if !c.IsSet(flag) {
		return fallback, nil
	}
	n, err := strconv.Atoi(c.String(flag))
	if err != nil || n < 1 {
		return 0, usage("", "--%s is %s: expected a number from 1", flag, strconv.Quote(c.String(flag)))
	}
	return n, nil
}
