// Package sim runs many election Nodes in one virtual LAN, from one seed.
//
// The Nodes are the code that ships, and so are the Lanes of the keepers that run their hooks
// (lanes.go) and, in some schedules, the checks of hosts (checks.go), and those that say when a job's command begins and ends (jobs_command.go). Everything around them is a model: a
// machine has a boot-time clock of its own rate, a disk of which only what was
// synced survives a crash, a process that can be killed between any two effects,
// frozen, or started twice, a keeper beside it, of which the same holds, hooks that take their time
// and leave something running, and borrowers of a lease. The network loses,
// doubles, delays, damages and replays frames; the failure detector lies; hosts
// tell of ended processes and pulled cables, or do not. What users see of a leadership is judged
// by what the world saw (hookhost.go): processes that began and ended, and datagrams.
//
// In a quarter of the schedules all datagrams are sealed, by the sessions that ship (sealed.go),
// with a model of their curve (curve.go). What the network does is done to sealed datagrams and to handshakes.
// In the others the port is an oracle: a datagram is a frame of the host that it names. Sessions are
// replaced and handshakes lost besides (sessions.go). Some schedules have a host with the cluster's
// key that wishes the others ill (insider.go).
//
// # One schedule
//
// A seed draws a scenario (scenario.go): the group, its settings, its weather
// and the pace of its faults. Then a storm inflicts faults (storm.go) while
// every step is held against the invariants of protocol section "Invariants"
// (invariants.go). Then all faults end, and within a bound one live leader must be
// known to all, and stay (liveness.go).
//
// Some faults are beyond what is promised: a clock that runs away or is slewed too fast, a disk that
// lies about a sync, a restored backup, a cloned state directory, a virtual
// machine whose clock stops with it. A schedule with one of them waives what the
// table in waivers.go names for it, counts those violations, and judges the rest.
//
// # Repeating one
//
// Everything happens in one goroutine, in the order of one heap, with one source
// of chance. The same Options give the same run, byte for byte: Result.Hash is
// over all frames, transitions and faults. So nothing is recorded while many
// schedules run; a failed one is run again with Options.Trace.
package sim
