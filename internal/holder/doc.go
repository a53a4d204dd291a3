// Package holder keeps the command of exec, of hold or of a job, and ends it when this host
// leads no more, also when its starter cannot: because that was killed, stopped or frozen.
//
// A holder is a small process of the same program, in a session of its own, so that no signal
// to the process group of its starter reaches it. The starter is the keeper for a job's
// command, exec and hold for theirs. The keeper keeps telling it, over a socket, until when the
// lease lasts. A holder of exec or hold follows that itself (Config.Lease), on the connection
// on which those had become a client of the lease: to stop them changes nothing, and to the
// agent the client is there until nothing of the command is left. The holder
//
//  1. starts the command in a process group of its own, and where a cgroup v2 is
//     writable in a cgroup of its own, after it has noted that on disk;
//  2. ends it (TERM, a grace, KILL) when the starter says Stop, when the socket or the
//     lease's line closes because the other end is dead, and when the lease's deadline comes
//     near without a renewal, whatever keeps the agent from sending one. All of the
//     command is dead by the deadline, unless it hangs in the kernel: Report.Stuck then says
//     so, and the holder waits until it has ended;
//  3. ends when its command has ended and that is noted. What the command's first
//     process leaves behind is ended with it.
//
// Over time:
//
//	starter                              holder                    command
//	  │ Start ──────────── fork, exec ────▶│ note "prepared"
//	  │                                    │── fork, exec ───────────▶│
//	  │◀─────────── running ───────────────│                          │
//	  │ Renew(terms) ─────────────────────▶│                          │
//	  │ Renew(terms) ─────────────────────▶│                          │
//	  ✝ killed          socket closes      │── TERM … KILL ──────────▶✝
//	                                       │ note "ended"
//	                                       ✝
//
// # Times
//
// Deadlines are readings of CLOCK_BOOTTIME, which goes on while the machine is
// suspended and which nobody can set, and are absolute: a renewal that was
// delayed on its way, or written by a starter that was stopped in the middle of
// it, cannot lengthen anything. A machine that freezes as a whole freezes the
// holder too; on waking the holder looks at the clock before anything else.
// It hears what was said before it judges by that time: a holder that did not get
// to run finds the renewals of that time.
//
// On a silent agent TERM is sent Budget before the deadline, KILL early enough to
// be done by it.
//
// A command that may run for longer than the lease on whose strength it starts has
// Terms.StartBy beside its deadline: a holder that was stopped on the way starts nothing late.
//
// # What escapes
//
// With a cgroup nothing that the command starts escapes, but what root moves to
// another cgroup, or what another service starts for it (systemd-run, docker).
// Without one, the holder kills the process group, and adopts every orphan of it
// (PR_SET_CHILD_SUBREAPER), also one that called setsid or forked twice, and
// kills that too; but one by one, so that a child that keeps forking in sessions
// of its own can be faster. Report.Cgroup says which of the two holds.
//
// If the holder itself is killed, the kernel kills the command's first process
// (Pdeathsig; the thread that started it never ends before the holder does), and the
// starter, which sees the socket close, the rest. If both are killed, Recover does.
// A holder takes no notice of TERM (systemd with KillMode=control-group).
package holder
