package guard

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/run"
)

// Config says what to guard. Argv, Clock and Records are needed.
type Config struct {
	// Name is for people: a job's name, or what the guard is for.
	Name string
	// Epoch is the leadership in which it is started.
	Epoch hooks.Epoch

	// Argv is the command, by its path. Env is its whole environment, to which BULLY_GUARD is added. Cwd is where it starts,
	// default "/".
	Argv []string
	Env  []string
	Cwd  string
	// Stdin, Stdout and Stderr are the command's; nil is /dev/null. The caller
	// keeps its own descriptors, and may close them after Start.
	Stdin, Stdout, Stderr *os.File
	// Others are descriptors of this process that the command has under the same
	// numbers, all above 2: sockets that it was activated with, say. As for the three,
	// the caller keeps its own.
	Others []int
	// Lease is the agent's lease where the guard is to follow it itself: it takes the
	// deadline from the agent, for as long as that leads in Epoch, and ends the command when
	// that has ended or the agent gone. Renew is for other guards. The caller reads no more of
	// it, and closes it after Done: to the agent the holder is there until nothing of the
	// command is left, which the guard says by shutting the connection down. Nil: only Renew says.
	Lease *control.Tenure

	// Deadline is when the command must be dead unless Renew says otherwise, on
	// Clock; zero: it may run for as long as the agent lives.
	Deadline time.Time
	// StartBy is when the command must have started unless RenewStart says
	// otherwise, on Clock: later it is not started at all. Zero: the deadline alone
	// says. It is for a command that may run for longer than the lease on whose
	// strength it starts.
	StartBy time.Time
	// Clock is what deadlines are told by: it must go on while the machine is
	// suspended.
	Clock func() time.Time

	// Budget is how long before the deadline a silent agent is taken for dead:
	// what TERM and KILL have. More gives them more time; it must stay below what a healthy agent leaves of its lease between
	// two renewals. Default 100 ms (protocol 2.5, stop budget of profile lan).
	Budget time.Duration
	// Grace is the time between TERM and KILL, less if the deadline is nearer.
	// Default 5 s.
	Grace time.Duration

	// Records is a directory for the records, which only this agent uses: Recover
	// waits for whoever works there.
	Records string

	// Cgroup is a directory of a cgroup v2 in which the command's own is made;
	// default this process's own. NoCgroup makes none.
	Cgroup string

	// Program starts a guard: a command that calls Main. Default: this program,
	// with the argument Word.
	Program []string
}

// NoCgroup as Config.Cgroup makes no cgroup.
const NoCgroup = "none"

// NoRecords as Config.Records keeps no record: for a command in whose place nobody
// would look for one. If the guard is killed together with whoever has started it,
// only the command's first process is sure to be dead.
const NoRecords = "none"

const (
	defaultBudget = 100 * time.Millisecond
	defaultGrace  = 5 * time.Second // docs/hooks.md
)

// leaseRoom is more than a lease and a takeover delay last. Arbitrary.
const leaseRoom = 10 * time.Second

// patience is how long a guard may work once its agent is dead or silent, for whoever
// waits for it: it ends the command. One that takes longer is stopped, or starved.
func (c Config) patience() time.Duration { return leaseRoom + c.Grace + run.Unkillable }

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Records == "":
		return c, errors.New("start guard: no directory for its record")
	case c.Budget < 0 || c.Grace < 0:
		return c, fmt.Errorf("start guard: budget %v and grace %v must not be negative", c.Budget, c.Grace)
	case c.Clock == nil:
		return c, errors.New("start guard: no clock for its deadline")
	case len(c.Argv) == 0 || !strings.Contains(c.Argv[0], "/"):
		return c, fmt.Errorf("start guard: command %q: expected its path", c.Argv)
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Cwd == "" {
		c.Cwd = "/"
	}
	if len(c.Program) == 0 {
		c.Program = []string{"/proc/self/exe", Word} // also when the file was replaced
	}
	return c, nil
}
