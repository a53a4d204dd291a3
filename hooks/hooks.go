// Package hooks runs the user's commands when this node's leadership or its
// view of the cluster changes: in order, bounded in time, output and queue, and
// never in the way of the election.
//
// What runs, when and until when is decided by a value, Lanes. Leadership events
// (become-leader, lose-leadership) run strictly one at a time in the order of asking; the
// notifications (leader-change, member-change) have a lane of their own, so that a stuck
// notification delays nothing that matters. Checks, programs that name hosts, and attempts of jobs have lanes of
// their own (question.go, lanejob.go). testdata/lanes tells its rules as stories. What the
// leadership's lane promises (docs/hooks.md):
//
//  1. Per node the hooks form (become lose)*, epochs strictly rising; a life may begin with
//     one lose-leadership of no epoch (CleanUp, at_start).
//  2. A become-leader whose epoch has ended is never started; its lose-leadership
//     is dropped with it.
//  3. Every become-leader that was tried is followed by its lose-leadership,
//     also when it failed or was killed.
//  4. Losing an epoch kills its running become-leader: TERM to its process group,
//     a grace, KILL; and it ends the wait for the next attempt.
//  5. No become-leader starts that is not on disk as begun.
//  6. The lose-leadership of an epoch is the one that was configured when its
//     become-leader began (kept).
//
// Package hookrun carries out what Lanes decide. It lives in the keeper, a process beside the agent
// (package keeper), which keeps promise 3 across the death of the agent. Where the keeper could
// not, since it died too, the election's state file and the journal say so, and CleanUp is called
// at the next start. The lose-leadership hook therefore runs
// at least once, not exactly once, and has to be idempotent.
//
// A command runs in its own process group with a clean environment, in "/", with
// one JSON object on its standard input. Whatever of its group is left when it
// ends is ended with it. A child that calls setsid leaves the group and escapes:
// work that is meant to outlast the hook belongs in a service that the hook
// starts (systemctl start, systemd-run), where something supervises it. For the
// reach of a group's kill see package run.
//
// If this process is killed, the kernel kills the first process of each command with
// it (Pdeathsig), and whoever runs hooks next ends the rest of its group by the journal.
// Pdeathsig fires when the thread ends that has started the command, not the process
// (go.dev/issue/27505): each command has one, which outlives it.
package hooks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Kind names an event that a hook can be bound to. It is what hooks read in
// BULLY_EVENT.
type Kind string

// The events. The first two form the leadership queue.
const (
	BecomeLeader   Kind = "become-leader"
	LoseLeadership Kind = "lose-leadership"
	LeaderChange   Kind = "leader-change"
	MemberChange   Kind = "member-change"
)

// OfLeadership reports whether events of this kind must run in order.
func (k Kind) OfLeadership() bool { return k == BecomeLeader || k == LoseLeadership }

// Command is what the user configured for one event: a string for /bin/sh -c, or
// an argument vector whose first element is an absolute path. At most one of the
// two is set; the zero Command means no hook.
type Command struct {
	Shell string
	Argv  []string
}

// IsZero reports whether no hook is configured.
func (c Command) IsZero() bool { return c.Shell == "" && len(c.Argv) == 0 }

// String gives the command as logs and status show it.
func (c Command) String() string {
	switch {
	case c.Shell != "":
		return c.Shell
	case len(c.Argv) > 0:
		return fmt.Sprintf("%q", c.Argv)
	}
	return "none"
}

// Words is the command as execve takes it, through /bin/sh if it is a string.
func (c Command) Words() []string {
	if c.Shell != "" {
		return []string{shellPath, "-c", c.Shell}
	}
	return c.Argv
}

const (
	shellPath = "/bin/sh"

	// causeUncleanRestart is the cause of a lose-leadership hook that makes up
	// for a leadership which an earlier life of this agent did not finish.
	causeUncleanRestart = "unclean-restart"

	// CauseStarted is the cause of a lose-leadership hook that is run at a start of the agent
	// which owes none (at_start).
	CauseStarted = "started"

	// CauseRequested is the cause of a hook that the operator has run again.
	CauseRequested = "requested"

	// CauseTest is that of an event that was made up to try a hook.
	CauseTest = "test"

	// CauseAgentDied is that of one which nobody has asked for.
	CauseAgentDied = "agent-died"

	defaultTimeout = 30 * time.Second // docs/hooks.md
	defaultGrace   = 5 * time.Second  // docs/hooks.md
)

// Config says what to run and within which bounds. The zero Config runs nothing.
type Config struct {
	// Commands holds the hook of each event; an absent one is no hook.
	Commands map[Kind]Command

	// Resources are what this host has while it leads, in the order in which they begin. Each name
	// is there once.
	Resources []Resource

	// Timeout is how long one hook may run before its group is sent TERM. Higher
	// forgives slow services; the price is paid in a planned hand-over, which
	// waits for the lose-leadership hook this long. Default 30 s.
	Timeout time.Duration

	// Grace is the time between TERM and KILL, also for background children that
	// a hook leaves behind. It adds to Timeout in the worst case. Default 5 s.
	Grace time.Duration
}

// WithDefaults is c with the documented defaults filled in and a map of its own.
func (c Config) WithDefaults() Config {
	c.Commands = maps.Clone(c.Commands)
	c.Timeout, c.Grace = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.Grace, defaultGrace)
	return c
}

// Longest is how long all attempts of a lose-leadership hook may take together.
func (c Config) Longest() time.Duration {
	c = c.WithDefaults()
	return c.Timeout + c.Grace + ending.Unkillable
}

// Node is a member as an event mentions it. The zero Node means unknown or none.
type Node struct {
	ID, Name, Addr string
}

// Member is one row of the membership as it was at the event, in memory and in what a hook reads.
type Member struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Addr     string `json:"addr"`
	Status   string `json:"status"`   // alive, suspect, dead, left
	Priority int    `json:"priority"` // 0–65535
	Voter    bool   `json:"voter"`
}

// Epoch identifies one leadership. Counter is the fencing token.
type Epoch struct {
	Counter uint64 `json:"counter"`
	Owner   string `json:"owner"`
}

// Event is what happened, as a hook is told of it. Lanes keep it until its
// hook has ended: the caller must not change Members afterwards.
type Event struct {
	Kind                Kind
	Cause               string
	Time                time.Time // when it happened, not when its hook starts
	Cluster, Mode, Role string
	Epoch               Epoch
	Self                Node
	Leader              Node
	PrevLeader          Node
	Members             []Member

	// Quorum is the number of votes that make a majority; 0 in available mode.
	Quorum int

	// IsPlanned says of a lose-leadership event that the lease goes on meanwhile, so that
	// nobody else leads before the hook has ended: unless whoever renews it falls silent.
	IsPlanned bool

	// Attempt is how often the hook was tried before for what has happened.
	Attempt int

	// AtStart says of a lose-leadership event of CleanUp that its hook runs also if none is due,
	// or the last life's keeper has run it (at_start).
	AtStart bool `json:"-"`

	// IsRedo says that a lose-leadership hook which failed is tried again, long
	// after others lead. A become-leader does not wait for it.
	IsRedo bool

	// Ended, if set, is called once, on some goroutine, when the event has been
	// dealt with. The output comes to the ledger in its own time.
	Ended func(Result) `json:"-"`
}

// Result is how one event of the leadership queue ended. Every become-leader and
// lose-leadership event gets exactly one, in the order of the events.
type Result struct {
	Kind  Kind
	Epoch uint64 // counter
	Cause string // of the event; agent-died if nobody asked for it

	OK  bool // the hook exited with 0, or there was nothing to run
	Ran bool // a process was started

	Seq      uint64 // BULLY_SEQ of the last attempt; 0 if there was none
	Attempts int    // that were made for this event

	// TakenOver says that the agent was dead or silent when the hook ran, or in the
	// middle of that: its end was seen to without it. Unasked says that no event asked for this
	// result: it tells that the leadership has been taken from the agent, not how the
	// hook ended.
	TakenOver, Unasked bool

	// Resource names what the leadership should have had, if that is why it is not OK. IsLater says
	// that it has failed since: another result of the same hook was told before.
	Resource string
	IsLater  bool

	// IsRepeat says that a result of the same run has been told before: the event asked
	// for a hook that was queued, running or taken over.
	IsRepeat bool

	// IsCut says that it failed since it was ended, or had less than its own time: it may
	// be well.
	IsCut bool

	Exit    int   // exit code; -1 if the process never started or a signal ended it
	Err     error // why OK is false; nil otherwise
	Took    time.Duration
	Started time.Time // zero when !Ran
}

// String is the result's line in logs and status.
func (r Result) String() string {
	switch {
	case !r.Ran && r.OK:
		return fmt.Sprintf("%s of epoch %d: nothing ran", r.Kind, r.Epoch)
	case r.OK && r.TakenOver:
		return fmt.Sprintf("%s of epoch %d: taken over and done in %v", r.Kind, r.Epoch, r.Took.Round(time.Millisecond))
	case r.OK:
		return fmt.Sprintf("%s of epoch %d: done in %v", r.Kind, r.Epoch, r.Took.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s of epoch %d: %v", r.Kind, r.Epoch, r.Err)
}

var (
	// errOver is the end of a become-leader hook whose epoch was lost.
	errOver = errors.New("stopped, since its epoch has ended")

	// ErrStopping is returned in Results for events that were still queued when
	// Run's context ended, and for the hook that was ended with it.
	ErrStopping = errors.New("stopped, since the agent is stopping")

	// errSuperseded is the end of a notification before a newer one of its kind.
	errSuperseded = errors.New("not started, since a newer event of its kind has come")

	// errTakenOver is what an agent hears that was frozen past its lease.
	errTakenOver = errors.New("the leadership was ended, since the agent was silent until its lease was nearly over")

	// errOvertaken is the end of a lose-leadership hook that was tried once more
	// when this node leads again.
	errOvertaken = errors.New("stopped, since this node leads again")

	// ErrNotRecorded is wrapped by the Err of a become-leader that was not started
	// because the disk did not take the note of it. Nothing ran, and nothing needs
	// to be undone.
	ErrNotRecorded = errors.New("become-leader hook not started, since it could not be recorded")
)

// OneLine keeps a command fit for a log value.
func OneLine(s string) string {
	const most = 200 // arbitrary: a glance at a command, not a script
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Run is one run of a hook as the ledger has it: the first line of its file.
type Run struct {
	Hook    Kind      `json:"hook"`
	Cause   string    `json:"cause"`
	Epoch   uint64    `json:"epoch"` // counter
	Seq     uint64    `json:"seq"`   // BULLY_SEQ
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
	TookMS  float64   `json:"took_ms"`
	Exit    int       `json:"exit"` // as in Result
	OK      bool      `json:"ok"`
	Err     string    `json:"err,omitempty"`
	Printed int64     `json:"printed"` // bytes; more than are kept if the beginning was cut
}
