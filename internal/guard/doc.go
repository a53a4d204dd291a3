// Package guard ends what runs only while this host leads, also when the agent
// that started it cannot: because it was killed, stopped or frozen.
//
// A guard is a small process of the same program, in a session of its own, so
// that no signal to the agent's process group reaches it. The agent starts it
// with Start and keeps telling it, over a socket, until when the lease lasts. The
// guard
//
//  1. starts the command in a process group of its own, and where a cgroup v2 is
//     writable in a cgroup of its own, after it has noted that on disk;
//  2. ends it (TERM, a grace, KILL) when the agent says Stop, when the socket
//     closes because the agent is dead, and when the lease's deadline comes near
//     without a renewal, whatever keeps the agent from sending one. All of the
//     command is dead by the deadline;
//  3. in the two cases in which the agent is dead or silent, runs the
//     lose-leadership hook then, with the cause agent-died, and notes that on disk,
//     where the agent's next start finds it with Recover;
//  4. ends when its command has ended and that is noted. What the command's first
//     process leaves behind is ended with it.
//
// A guard without a command holds nothing but the deadline and the hook: one of
// them for each leadership takes the address away after a kill -9 of the agent.
//
//	agent                                guard                     command
//	  │ Start ──────────── fork, exec ────▶│ note "prepared"
//	  │                                    │── fork, exec ───────────▶│
//	  │◀─────────── started ───────────────│ note "running"           │
//	  │ Renew(deadline) ──────────────────▶│                          │
//	  │ Renew(deadline) ──────────────────▶│                          │
//	  ✝ killed          socket closes      │── TERM … KILL ──────────▶✝
//	                                       │── lose hook, agent-died ─▶
//	                                       │ note "ended"
//	                                       ✝
//
// # Times
//
// Deadlines are readings of CLOCK_BOOTTIME, which goes on while the machine is
// suspended and which nobody can set, and are absolute: a renewal that was
// delayed on its way, or written by an agent that was stopped in the middle of
// it, cannot lengthen anything. A machine that freezes as a whole freezes the
// guard too; on waking the guard looks at the clock before anything else.
//
// On a silent agent TERM is sent Budget before the deadline, KILL early enough to
// be done by it. If there is a lose hook, the command may use a quarter of the
// time that is left and the hook has the rest: it is killed at the deadline plus
// Takeover (protocol 2.5, M7). Once that has passed anyway, the hook has its full
// timeout: another leader is there then, and killing a half-done release protects
// nothing. A hook that failed or was killed before runs once more then.
//
// A command that may run for longer than the lease on whose strength it starts has
// StartBy beside its deadline: whoever is stopped on the way starts nothing late.
//
// # Who runs the lose hook
//
// The agent or the guard, never both at a time: with Yield the agent says that it
// runs the hook itself, and waits for the answer, or for the guard's end, whose
// Report then says that it had been quicker (Lose is not nil). An agent that was
// frozen and goes on asks in this way, too. A guard that has yielded minds the old
// deadline no more. If the agent dies, or a deadline passes that a Renew has set since,
// and Takeover with it, it ends what is left of the agent's hook and runs its own. When
// the agent's hook has ended, Release ends the guard, and then the agent may die.
//
//	agent                                guard
//	  │ Yield ────────────────────────────▶│
//	  │◀─────────── yielded ───────────────│
//	  │── lose hook, lease-expired ──▶      │
//	  │ Release ──────────────────────────▶│
//	  │                                    ✝
//
// # What escapes
//
// With a cgroup nothing that the command starts escapes, but what root moves to
// another cgroup, or what another service starts for it (systemd-run, docker).
// Without one, the guard kills the process group, and adopts every orphan of it
// (PR_SET_CHILD_SUBREAPER), also one that called setsid or forked twice, and
// kills that too; but one by one, so that a child that keeps forking in sessions
// of its own can be faster. Report.Reach says which of the two holds, for people.
//
// If the guard itself is killed, the kernel kills the command's first process
// (Pdeathsig; the guard's main thread never ends before the guard does), and the
// agent, which sees the socket close, the rest. If both are killed, Recover does.
// A supervisor that kills all of the agent's cgroup when the agent dies (systemd
// with KillMode=mixed, a container whose process 1 it was) kills the guard before
// it can run a hook: then it is the next start's again. A guard takes no notice of
// TERM (systemd with KillMode=control-group), and tries a hook that died of it again.
package guard
