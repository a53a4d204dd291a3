// Package keeper is the process beside the agent that runs its commands, and the
// agent's hand on it.
//
// One keeper stands beside each agent for as long as that lives, and one clean-up
// longer. It is a process of the same program (Main), in a session of its own, so that
// no signal to the agent's process group reaches it. The agent decides, the keeper acts:
// the order of hooks, their bounds, their output and the journal of what is due are all
// here, by packages hooks and hookrun, and so are checks, the programs that name hosts to join, and the commands of jobs.
// The agent starts nothing but its keeper. The keeper is one loop (keeper.turn) that owns hooks.Lanes; what could take
// long is done by workers, which post to it. The keeper reads no network and holds no key, and it believes
// its agent, which does read the network, as little as it can (refuse.go): what there is to
// run, for how long, and where records are kept it has read itself (Settings), an order only
// names a hook by its event and a job by its name.
//
//	agent                                     keeper                 commands
//	  │ Recover ───────── fork, exec ───────────▶│
//	  │◀────────── opened (what is due) ────────│
//	  │ Start(become), Renew(deadline) … ───────▶│── fork, exec ─────────▶│
//	  │◀────────── ended(result) ────────────────│◀───────────────────────│
//	  ✝ killed           its pidfd               │── TERM … KILL ────────▶✝
//	                                             │── lose, agent-died ───▶│
//	                                             ✝
//
// # The agent dies, or falls silent
//
// The agent is dead when its pidfd says so, and silent when it lets the deadline of its lease pass. What follows Lanes decide
// (hooks/lanewatch.go). There is no hand-over: the keeper had the work all along. One whose agent is dead ends when all has. A silent
// agent may go on at any time, and hears of it before anything else (Result.Unasked).
//
// Deadlines are readings of CLOCK_BOOTTIME, as those of holders (package holder). Before the keeper judges a deadline by a time, it
// reads what the agent had said by then: one that was frozen with the agent does not take its own silence for that of the agent.
//
// # The keeper dies
//
// The kernel ends the first process of each hook, and holders end what jobs ran. The agent starts another keeper,
// which ends what is left of that and takes on the leadership that goes on (Adopt), and
// tells its node to step down cleanly (ErrDied). A keeper that does not read its orders
// is killed, and then as good as dead.
//
// If both die, the next start's keeper does what is due by the journal, before its agent
// stands. A keeper of the last life that still works holds the lock of its file in the state
// directory: the next one waits for it, and not for ever.
//
// A supervisor that kills all of the agent's cgroup when the agent dies (systemd with
// KillMode=mixed, a container whose process 1 it was) kills the keeper before it can run a
// hook: then it is the next start's again. A keeper takes no notice of TERM (systemd with
// KillMode=control-group), and tries a hook that died of it again.
//
// # The agent does not wait
//
// Nothing that the agent's loop calls waits for the keeper. Orders are queued and never
// lost; of renewals only the newest waits, and never before an order. Each order is
// acknowledged as it is read: a keeper that does not do so in time is lost. Log lines may
// be dropped by a keeper whose agent reads too slowly, and the drop is said.
package keeper
