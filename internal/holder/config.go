package holder

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Config says what to hold. Argv and Records are needed.
type Config struct {
	// Name is for people: a job's name, or the command's.
	Name string
	// Epoch is the leadership in which it is started.
	Epoch hooks.Epoch

	// Argv is the command, by its path. Env is its whole environment, to which BULLY_HOLDER is
	// added. Cwd is where it starts, default "/".
	Argv []string
	Env  []string
	Cwd  string
	// Others are descriptors of this process that the command has under the same
	// numbers, all above 2: sockets that it was activated with, say. The caller keeps its own.
	Others []int

	// Terms are those until Renew.
	Terms
	// Lease is the agent's lease where the holder is to follow it itself: it takes the
	// deadline from the agent, for as long as that leads in Epoch, and ends the command when
	// that has ended or the agent gone. Renew is for other holders. The caller reads no more of
	// it, and closes it after Done: to the agent the lease has its client until nothing of the
	// command is left, which the holder says by shutting the connection down. Nil: only Renew says.
	Lease *control.Tenure

	// Budget is how long before the deadline a silent agent is taken for dead:
	// what TERM and KILL have. More gives them more time; it must stay below what a healthy
	// agent leaves of its lease between two renewals. Default 100 ms (protocol 2.5, stop budget of profile lan).
	Budget time.Duration
	// Grace is the time between TERM and KILL, less if the deadline is nearer. Default 5 s (docs/hooks.md).
	Grace time.Duration

	// Records is a directory for the records, which only this agent uses: Recover
	// waits for each holder that works there.
	Records string

	cgroup  string // in which the command's own is made; default this process's own
	program string // that calls Main with the argument Word; default this one
}

// Terms say until when the command may run. Their times are readings of CLOCK_BOOTTIME.
type Terms = ending.Terms

// NoRecords as Config.Records keeps no record: for a command in whose place nobody
// would look for one. If the holder is killed together with its starter,
// only the command's first process is sure to be dead.
const NoRecords = "none"

// noCgroup as Config.cgroup makes no cgroup.
const noCgroup = "none"

// patience is how long a holder may work once its starter is dead or silent: it ends the
// command. One that takes longer is stopped, or starved.
func (c Config) patience() time.Duration { return sidecar.Room + c.Grace + ending.Unkillable }

func (c Config) withDefaults() Config {
	c.Budget, c.Grace = cmp.Or(c.Budget, 100*time.Millisecond), cmp.Or(c.Grace, 5*time.Second)
	c.program = cmp.Or(c.program, sidecar.Program)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Records == "":
		return errors.New("no directory for its record")
	case c.Budget < 0 || c.Grace < 0:
		return fmt.Errorf("budget %v and grace %v must not be negative", c.Budget, c.Grace)
	case len(c.Argv) == 0 || !strings.Contains(c.Argv[0], "/"):
		return fmt.Errorf("command %q: expected its path", c.Argv)
	}
	return nil
}
