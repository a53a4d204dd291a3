package lab

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// Options says what kind of lab to run. Nodes, Binary, Out and Err are required; everything else has a useful zero.
type Options struct {
	Nodes  int    // agents, 1 to 100
	Binary string // the bully-agent to start, an absolute path

	// Netns gives each agent a network namespace with a cable of its own, which a cut pulls. It needs root.
	Netns bool

	// Script is the path of a script to play; empty: the built-in one, or the keyboard.
	Script string
	// Fault names what to inflict on the leader again and again: kill, stop, pause, handover, cut, carrier, or several
	// with commas.
	Fault string
	// Repeat is how often each Fault is inflicted. More narrows the percentiles: p95 wants 50. 0: 10.
	Repeat int
	// Watch is how long to count changes of leader, with no fault but the weather. 0: do something else.
	Watch time.Duration

	// Mode is available or quorum; empty: what Expect says.
	Mode string
	// Expect is the number of voters in quorum mode, 3 to 15. 0: Nodes, in that mode.
	Expect    int
	Algorithm string // classic, enhanced or smallest; empty: classic

	// Loss is the share of frames that are lost on their way, in percent, Delay how long the others take, and Jitter by
	// how much that varies either way. They need Netns. Seed is of the chance behind them; 0: another one each time.
	Loss          float64
	Delay, Jitter time.Duration
	Seed          uint64
	// Busy is how many processes do nothing but use up processors during the faults or the watch.
	Busy int
	// LoseHook is how long the lose hook takes. More than the stop budget, a quarter of the lease, is too long for a
	// leader that is cut off.
	LoseHook time.Duration

	Profile string        // timers of the agents: lan, fast or wan; empty: lan
	Settle  time.Duration // how long an agent listens before its first election; 0: enough for Nodes to start on a small host
	// Scheduling is the agents': auto, realtime or normal; empty: theirs to choose.
	Scheduling string
	Preempt    string   // priority, always or never; empty: what suits the task, see preempt
	Insecure   bool     // the agents use no key; else the lab makes one of its own for them
	Extra      []string // further arguments of `run`, given to each agent last

	// Page serves the live page with buttons at PageAddr, an address of loopback; empty: 127.0.0.1 and a port that is free.
	Page     bool
	PageAddr string

	JSON bool // print one JSON document at the end instead of text
	Keep bool // leave the directory with states and logs behind

	place string // where that directory is made, of tests that run side by side; empty: among temporary files

	In       *os.File // keyboard, used when Interactive
	Out, Err io.Writer
	// Interactive asks for the live table. It needs In and Out to be a terminal, and gives way to Script and Fault.
	Interactive bool
}

const (
	mostNodes     = 100 // arbitrary: what one host can start within a settle time
	defaultRepeat = 10

	modeAvailable, modeQuorum = "available", "quorum"
	fewestVoters, mostVoters  = 3, 15 // the agent's bounds on expect
	mostBusy                  = 1000
)

// validate finds what cannot work, before anything is started.
func (o *Options) validate() error {
	switch {
	case o.Nodes < 1 || o.Nodes > mostNodes:
		return usage("--nodes %d: expected 1 to %d", o.Nodes, mostNodes)
	case o.Fault != "" && o.Script != "":
		return usage("--fault and --script exclude each other: put the faults into the script, or leave it out")
	case o.Repeat < 0:
		return usage("--repeat %d: expected 1 or more", o.Repeat)
	case o.Settle < 0:
		return usage("--settle %v: expected a positive duration", o.Settle)
	case o.Profile != "" && leases[o.Profile] == 0:
		return usage("--profile %q: expected lan, fast or wan", o.Profile)
	case !slices.Contains([]string{"", "auto", "realtime", "normal"}, o.Scheduling):
		return usage("--scheduling %q: expected auto, realtime or normal", o.Scheduling)
	case !slices.Contains([]string{"", "priority", "always", "never"}, o.Preempt):
		return usage("--preempt %q: expected priority, always or never", o.Preempt)
	case !slices.Contains([]string{"", "classic", "enhanced", "smallest"}, o.Algorithm):
		return usage("--algorithm %q: expected classic, enhanced or smallest", o.Algorithm)
	case o.LoseHook < 0:
		return usage("--lose-hook %v: expected a positive duration", o.LoseHook)
	}
	for _, part := range []func() error{o.validateMode, o.validateWeather, o.validateWatch, o.validateFaults, o.validatePage} {
		if err := part(); err != nil {
			return err
		}
	}
	if o.Netns {
		return mayUseNamespaces()
	}
	return nil
}

func (o *Options) validateMode() error {
	voters := cmp.Or(o.Expect, o.Nodes)
	switch {
	case !slices.Contains([]string{"", modeAvailable, modeQuorum}, o.Mode):
		return usage("--mode %q: expected available or quorum", o.Mode)
	case o.Mode == modeAvailable && o.Expect != 0:
		return usage("--expect %d is for quorum mode: leave out --mode available", o.Expect)
	case o.Expect < 0 || o.isQuorum() && (voters < fewestVoters || voters > mostVoters):
		return usage("--expect %d: a quorum needs %d to %d voters", voters, fewestVoters, mostVoters)
	}
	return nil
}

func (o *Options) validateWeather() error {
	switch {
	case o.Loss < 0 || o.Loss >= 100:
		return usage("--loss %g: expected a number of percent from 0 to below 100", o.Loss)
	case o.Delay < 0 || o.Jitter < 0 || o.Jitter > o.Delay:
		return usage("--delay %v --jitter %v: expected a positive delay, and a jitter of no more than that", o.Delay, o.Jitter)
	case !o.weather().IsFine() && !o.Netns:
		return usage("--loss and --delay are done to a cable, which only agents in namespaces have: add --netns")
	}
	return nil
}

func (o *Options) validateWatch() error {
	switch {
	case o.Watch < 0:
		return usage("--watch %v: expected a positive duration", o.Watch)
	case o.Watch > 0 && (o.Fault != "" || o.Script != ""):
		return usage("--watch looks on where nothing is done: leave out --fault and --script")
	case o.Busy < 0 || o.Busy > mostBusy:
		return usage("--busy %d: expected at most %d", o.Busy, mostBusy)
	case o.Busy > 0 && o.Watch == 0 && o.Fault == "":
		return usage("--busy makes a watch or a measurement harder: add --watch or --fault")
	}
	return nil
}

// isQuorum reports whether the agents run in quorum mode.
func (o *Options) isQuorum() bool { return o.Mode == modeQuorum || o.Expect > 0 }

func (o *Options) weather() netlab.Weather {
	return netlab.Weather{Loss: o.Loss / 100, Delay: o.Delay, Jitter: o.Jitter, Seed: o.Seed}
}

// stopBudget is how long before its lease ends a leader steps down.
func (o *Options) stopBudget() time.Duration { return leases[o.Profile] / 4 }

func (o *Options) validateFaults() error {
	for _, f := range o.faults() {
		switch {
		case !slices.Contains(faults, f):
			return usage("--fault %q: expected %s, or several with commas", f, strings.Join(faults, ", "))
		case (f == faultCut || f == faultCarrier) && !o.Netns:
			return usage("--fault %s pulls a cable, which only agents in namespaces have: add --netns", f)
		case o.Nodes < 2:
			return usage("--fault %s with --nodes %d: nobody is left to take over, expected 2 or more", f, o.Nodes)
		}
	}
	return nil
}

// faults lists what Fault names.
func (o *Options) faults() []string {
	if o.Fault == "" {
		return nil
	}
	list := strings.Split(o.Fault, ",")
	for i, f := range list {
		list[i] = strings.TrimSpace(f)
	}
	return list
}

// fill puts the defaults in.
func (o *Options) fill() {
	if o.Profile == "" {
		o.Profile = "lan"
	}
	if o.Repeat == 0 {
		o.Repeat = defaultRepeat
	}
	if o.Scheduling == "" {
		o.Scheduling = "auto"
	}
	if o.Settle == 0 {
		// An agent that has not met anybody within its settle time leads alone, which available mode allows and
		// which spoils the show. 50 ms each is what two small cores need to start an agent under load.
		o.Settle = max(500*time.Millisecond, time.Duration(o.Nodes)*50*time.Millisecond)
	}
	if o.Preempt == "" {
		o.Preempt = o.preempt()
	}
	if o.isQuorum() {
		o.Mode, o.Expect = modeQuorum, cmp.Or(o.Expect, o.Nodes)
	} else {
		o.Mode = modeAvailable
	}
	if o.Algorithm == "" {
		o.Algorithm = "classic"
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
}

// isLive reports whether the keyboard drives the lab.
func (o *Options) isLive() bool {
	return o.Interactive && o.In != nil && o.Script == "" && o.Fault == "" && o.Watch == 0 && !o.JSON
}

// preempt is priority, so that a restarted node bullies its way back. Where a leader survives the fault it is never: an
// agent doubles its preempt delay with each leadership it loses (protocol 2.5), up to a minute, which would not add a
// thing to the measurement but time.
func (o *Options) preempt() string {
	for _, f := range o.faults() {
		if f != faultKill && f != faultStop {
			return "never"
		}
	}
	return "priority"
}

// leases are the lease lengths of the profiles (protocol 2.5).
var leases = map[string]time.Duration{"lan": 400 * time.Millisecond, "fast": 160 * time.Millisecond, "wan": 8 * time.Second}

// exitError ends the program with a status of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the status that the process should end with.
func (e *exitError) ExitCode() int { return e.code }

const exitUsage = 2 // docs/operating.md, exit codes

// ExitInterrupted is the exit code of a lab that a signal ended: what a shell reports for Ctrl-C.
const ExitInterrupted = 130

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}
