package keeper

import (
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// Settings is all that a keeper has to know. It reads them itself, at its start and each
// time that its agent says that they have changed: no command, path or bound comes from
// the process that reads the network.
type Settings struct {
	Hooks  hooks.Config
	Dir    string         // the state directory: needed
	Socket string         // of the agent, for BULLY_SOCKET
	Jobs   map[string]Job // by name
	// Checks are of this host; they run for as long as the keeper has an agent.
	Checks []hooks.Check
	// Programs name hosts to join: absolute paths, run without arguments when the agent asks
	// what they print. Each has AskTimeout, and AskMost bytes of it are read.
	Programs   []string
	AskTimeout time.Duration
	AskMost    int
	// Budget is how long before the deadline a silent agent loses its leadership: what
	// TERM, KILL and the lose-leadership hook have. More gives them more time; it must
	// stay below what a healthy agent leaves of its lease between two renewals.
	Budget time.Duration
	// Takeover is how much longer than the lease others wait before they take over
	// (takeover_delay).
	Takeover time.Duration
	// LeaseBound is how long after the last renewal of a lease others have taken over: by then the kernel has taken off an
	// address that nobody keeps.
	LeaseBound time.Duration
	// Readers is the number of a group that may read what hooks and jobs have printed, the
	// agent's; 0: nobody but this user.
	Readers int
}

// Job is what an attempt of a singleton job runs.
type Job struct {
	Command hooks.Command
	Timeout time.Duration // of an attempt; zero: none
	Tied    bool          // dead when the lease has ended
	AtOnce  int           // how many attempts may run at a time; zero: one
}

// Reader gives the settings of now. What it reads them from must have been fixed when the
// keeper was started.
type Reader func() (Settings, error)
