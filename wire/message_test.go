package wire

import (
	"fmt"
	"testing"
)

// The vectors tie words to the numbers on the wire; this ties the constants to
// the words.
func TestConstantsHaveTheirWords(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{Election, "ELECTION"}, {Answer, "ANSWER"}, {Coordinator, "COORDINATOR"}, {CoordAck, "COORD_ACK"},
		{Query, "QUERY"}, {Cid, "CID"}, {Heartbeat, "HEARTBEAT"}, {HeartAck, "HB_ACK"}, {Nominate, "NOMINATE"},
		{Resign, "RESIGN"}, {ResignAck, "RESIGN_ACK"}, {Probe, "PROBE"}, {ProbeAck, "PROBE_ACK"},
		{Prepare, "PREPARE"}, {Ready, "READY"}, {Leave, "LEAVE"}, {Roster, "ROSTER"},
		{RosterAck, "ROSTER_ACK"}, {JobClaim, "JOB_CLAIM"}, {JobWitness, "JOB_WITNESS"}, {JobRecord, "JOB_RECORD"},
		{LedgerQuery, "LEDGER_QUERY"}, {LedgerPart, "LEDGER_PART"},
		{Kind(0), "KIND(0)"}, {Canvass, "CANVASS"}, {Kind(25), "KIND(25)"}, {Clients, "CLIENTS"}, {kindEnd, "KIND(129)"},
		{LeaderFailed, "leader-failed"}, {Boot, "boot"}, {Preempt, "preempt"}, {NoLeader, "no-leader"},
		{Transfer, "transfer"}, {Abandoned, "abandoned"}, {LeaseLost, "lease-lost"}, {Superseded, "superseded"},
		{Reason(0), "reason(0)"}, {Reason(9), "reason(9)"},
		{OK, "ok"}, {LeaderAlive, "leader-alive"}, {Yes, "yes"}, {Leased, "leased"}, {Stale, "stale"},
		{Hold, "hold"}, {Ineligible, "ineligible"}, {Verdict(7), "verdict(7)"},
		{Accept, "accept"}, {AckStale, "stale"}, {AckLeased, "leased"}, {AckHold, "hold"},
		{NotVoter, "not-voter"}, {AckVerdict(5), "verdict(5)"},
		{Claim, "claim"}, {InForce, "active"}, {Phase(0), "phase(0)"}, {Phase(3), "phase(3)"},
		{KnowsNone, "none"}, {Knows, "knows"}, {Leads, "leads"}, {Knowledge(3), "knowledge(3)"},
		{AskLeader, "leader"}, {AskOpinion, "opinion"}, {Purpose(2), "purpose(2)"},
		{Starting, "starting"}, {Following, "following"}, {Candidate, "candidate"}, {Leading, "leading"},
		{Stopping, "stopping"}, {Observing, "observing"}, {Standing(6), "standing(6)"},
		{AckReq, "ack-req"}, {Retx, "retx"}, {Hop, "hop"}, {Draining, "draining"},
		{Active, "active"}, {Fresh, "fresh"}, {Wait, "wait"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T %d: got %q, want %q", c.value, c.value, got, c.want)
		}
	}
}
