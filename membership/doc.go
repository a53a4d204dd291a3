// Package membership says who is on the LAN. It turns memberlist into a stream
// of events, joined, updated, failed and left, and looks for absent members for
// ever.
//
//	sessions ─────────────────────── cards ──┐
//	    │                                    ▼
//	  filter ── memberlist ── delegate ─ hints ─ lives ── Events ── the agent's loop
//	                │            (under memberlist's lock: copies, never waits)
//	             Rejoin ── seeds, resolved each time, and everybody who died
//
// Gossip says where to look; a session says who is there. Only a card that came in a session of a life makes that life a member,
// and only its own word or its silence ends it: see lives.
//
// What it adds to memberlist:
//
//   - A departure is told from a death: by a flag on the card, and by MarkLeft.
//   - A restart is told from the life before, however quick it was.
//   - A partition of any length heals.
//   - Who has an unsafe name, a wrong card or an address that nobody can reach is not let in.
//   - The newest leader record spreads with the traffic that is there anyway.
//   - What others send costs no more than it should: see filter and lives.admit.
//
// What it does not do: it is no authority on who may vote or lead, and any member
// can forge what memberlist says of another. Whom a dead message hides from
// memberlist stays a member for as long as it answers in its session. Whom an alive message makes up is dialled, and is nobody.
//
// # Pitfalls
//
// Where each of memberlist v0.7.0's pitfalls (protocol 6.2) is avoided:
//
//	P1  delegates run under the node lock    delegate, Membership (invariant), logSink; TestNobodyListens
//	P2  NotifyJoin(self) inside Create       Membership.told, delegate.NotifyJoin
//	P3  left and dead look the same          endOf, Membership.Leave, MarkLeft; TestLeaveFrame
//	P4  pointers into live state             admission.node copies; LocalNode and Members are not called
//	P5  user messages are late and unordered delegate.NotifyMsg: none are sent, none are heard
//	P6  SendBestEffort and its compression   not called; memberlistConfig turns compression off, filter takes none
//	P7  64 KiB for each datagram             package transport's receiver; delegates answer pings at once
//	P8  no heal after half a minute          Rejoin; TestPartitionHeals
//	P9  a quick restart raises no event      nodeName, lives.show; TestRestartFasterThanDetection
//	P10 a name at another address            nodeName is new for each life; memberlistConfig, DeadNodeReclaimTime
//	P11 Leave is final and may panic         Membership.ops, Leave: an instance is not used again
//	P12 meta above 512 bytes panics          appendMeta, 5 bytes; UpdateNode blocks: it is not called
//	P13 an empty CIDRsAllowed allows all     memberlistConfig leaves it nil
//	P14 one odd version stops all push/pull  memberlistConfig: delegate versions 0; checkGossipVersions
//	P15 label and keys                       memberlistConfig: the cluster's name is the label; no keyring here
//	P16 passive merges bypass MergeDelegate  delegate.NotifyAlive; TestAdmission
//	P17 Ping blocks; acks carry 64 bytes     Membership.answers, in an attempt's goroutine; appendRecord, 25 bytes
//	P18 MockTransport blocks                 tests run on package lantest
//	P19 TCP open, UDP blocked                memberlistConfig: no TCP pings; Membership.exchange; TestOnlyTCPPasses
//	P20 whom one reaches flaps at all        lives.unhint, lives.hint, Membership.doubt; TestReachedThroughOneHost
package membership
