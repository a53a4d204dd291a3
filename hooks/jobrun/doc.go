// Package jobrun runs the commands of singleton jobs, in the keeper (package keeper),
// each by a holder of its own (package holder), and keeps what they printed.
//
//	keeper ── Begin ──▶ run ── holder.Start ──▶ holder ──▶ command
//	       ── Lease ──▶  │  ── Renew ─────────▶   │           │ stdout, stderr
//	       ── End ────▶  │  ── Stop ──────────▶   │           ▼
//	       ◀─ Post ───── │  ◀─ Report ─────────   │       the last 64 KiB, on disk
//
// A command that is tied to the leadership is dead when the lease has ended,
// whatever keeps this process from ending it: its holder has the lease's end, and
// Lease moves it. One that is not tied has only to start within the lease; its
// holder ends it at its timeout, should this process not. Neither outlives the
// agent, nor this process: nobody would know how it ended. When the agent dies, EndAll
// ends it and its output is kept; when this process dies its holder does (TERM, grace,
// KILL), and Recover waits for that.
//
// What a command is told is what a hook is told, and BULLY_JOB, BULLY_JOB_SLOT
// and BULLY_JOB_RUN_ID; its standard input is empty. A command that its file's
// permissions make unfit is refused as a hook would be.
package jobrun
