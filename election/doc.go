// Package election decides who leads, from events and time alone.
//
// A Node is one participant. Step tells it the time and one event, and gives
// what to do, in order; Deadline says when it wants to be told the time again.
// It has no clock, goroutine, socket, file or logger, so that the agent on a
// real LAN and a simulator in virtual time drive the very same code.
//
// # Roles and states
//
//	follower    Start ──leader heard──────────────▶ Follow ◀──────────────┐
//	              │                                  │  ▲                 │
//	              │                     leader silent│  │answers, or      │
//	              │settled, nobody leads             ▼  │peers hear it    │
//	              │                                Suspect                │
//	              ▼                                  │ probes lost         │
//	candidate   Stagger ◀────────────────────────────┘                    │
//	              │ our rank's turn, or a worse node challenges           │
//	              ▼                                                       │
//	            Elect ──somebody better answers──▶ Wait ──COORDINATOR─────┤
//	              │ nobody better answers, old lease over,                │
//	              │ and in quorum mode a majority would grant             │
//	              ▼                                                       │
//	            Claiming ──higher epoch──────────────────────────────────▶┤
//	              │ enough acknowledged, and that is on disk              │
//	              ▼                                                       │
//	leader      Lead ──lease, hand-over, higher epoch──▶ Stopping ────────┘
//	                                                     (lose hook runs)
//	observer    Observe: stands for nothing; a witness grants here
//
// Suspect is entered after T_s without a frame of the leader's, left to Stagger
// only when probes are lost too and a majority of the asked peers do not hear
// the leader either; or once its host says that its process has ended, and one
// probe confirms it. Every change of state goes through a becomeX method
// (transition.go) with a Cause.
//
// # Epochs
//
// A leadership has an epoch (counter, owner), minted as the highest counter
// seen plus one, on the owner's disk before it is sent, announced by the owner
// alone. Nodes only ever move to higher epochs. Where two leaders meet, the
// order of their epochs says which one goes.
//
// # Two modes
//
// In available mode every connected part of the network has a leader. In quorum
// mode (Config.Expect) a leader holds its lease from a majority of the roster:
// roster.go agrees on who may vote, canvass.go is the claimant's side, promise.go
// the voter's. The three algorithms, each behind strategy, differ in whom a
// starter asks and who announces; nothing that is promised depends on them.
//
// # Time
//
// The papers assume that messages and processing take a bounded time. Here that
// bound is approximated: requests are repeated with a timeout learnt from round
// trips (exchange.go, rtt.go), a silent leader is judged by the rhythm of its
// heartbeats (detect.go), and nobody takes over before the old leader's lease
// has run out, as counted from what it was last heard to send (lease).
//
// References such as R7, CE4 or 4.6 are to the protocol: the rules and the
// counter-examples each have a test of that name.
package election
