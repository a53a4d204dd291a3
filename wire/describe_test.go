package wire

import (
	"strings"
	"testing"
)

// Transcripts and logs are compared with these lines.
func TestFrameText(t *testing.T) {
	a, b := mustID(t, "00112233-4455-4677-8899-aabbccddeeff"), mustID(t, "f0e0d0c0-b0a0-4090-8070-605040302010")
	e := Epoch{42, b}
	for _, c := range []struct {
		frame Frame
		want  string
	}{
		{Frame{Kind: Election, Reason: LeaderFailed, Sender: a, Seq: 100, Round: 9, Epoch: Epoch{41, b}, HeartbeatAge: 350, FailedCounter: 41},
			"ELECTION from=00112233 seq=100 round=9 epoch=41/f0e0d0c0 reason=leader-failed attempt=0 hbAge=350ms failed=41"},
		{Frame{Kind: Election, Sender: a, Reason: Boot, Attempt: 2, HeartbeatAge: AgeUnknown, Flags: AckReq | Retx},
			"ELECTION from=00112233 seq=0 round=0 epoch=none reason=boot attempt=2 hbAge=unknown failed=0 flags=ack-req,retx"},
		{Frame{Kind: Canvass, Reason: NoLeader, Sender: a, Seq: 109, Round: 11, Epoch: e, HeartbeatAge: 1200, RosterVersion: 672, Flags: AckReq},
			"CANVASS from=00112233 seq=109 round=11 epoch=42/f0e0d0c0 reason=no-leader attempt=0 hbAge=1200ms roster=672 flags=ack-req"},
		{Frame{Kind: Answer, Sender: b, Seq: 17, Round: 9, Epoch: Epoch{41, b}, Attempt: 1, ETA: 40, EchoSeq: 100, HeartbeatAge: 348},
			"ANSWER from=f0e0d0c0 seq=17 round=9 epoch=41/f0e0d0c0 verdict=ok attempt=1 eta=40ms hbAge=348ms echo=100"},
		{Frame{Kind: Coordinator, Sender: b, Seq: 5, Round: 2, Epoch: e, Phase: Claim, Lease: 1000, RosterVersion: 1},
			"COORDINATOR from=f0e0d0c0 seq=5 round=2 epoch=42/f0e0d0c0 phase=claim lease=1000ms roster=1"},
		{Frame{Kind: CoordAck, Sender: a, Seq: 102, Round: 2, Epoch: e, AckVerdict: AckLeased, Remain: 65535, EchoSeq: 5, Flags: Fresh},
			"COORD_ACK from=00112233 seq=102 round=2 epoch=42/f0e0d0c0 verdict=leased remain=65535ms echo=5 flags=fresh"},
		{Frame{Kind: Query, Sender: a, Seq: 1},
			"QUERY from=00112233 seq=1 round=0 epoch=none"},
		{Frame{Kind: Cid, Sender: b, Seq: 18, Epoch: e, Knowledge: Leads, Remain: 210},
			"CID from=f0e0d0c0 seq=18 round=0 epoch=42/f0e0d0c0 state=leads hbAge=0ms remain=210ms"},
		{Frame{Kind: Heartbeat, Sender: b, Seq: 6, Epoch: e, Lease: 400, Interval: 50, RosterVersion: 1, Flags: Active},
			"HEARTBEAT from=f0e0d0c0 seq=6 round=0 epoch=42/f0e0d0c0 lease=400ms interval=50ms roster=1 flags=active"},
		{Frame{Kind: Heartbeat, Sender: b, Seq: 7, Epoch: e, Lease: 400, Interval: 50, Late: 10, Flags: Retx},
			"HEARTBEAT from=f0e0d0c0 seq=7 round=0 epoch=42/f0e0d0c0 lease=400ms interval=50ms roster=0 late=10ms flags=retx"},
		{Frame{Kind: HeartAck, Sender: a, Seq: 101, Epoch: e, EchoSeq: 6},
			"HB_ACK from=00112233 seq=101 round=0 epoch=42/f0e0d0c0 echo=6"},
		{Frame{Kind: HeartAck, Sender: a, Seq: 101, Epoch: e, EchoSeq: 6, AckFlags: KnowsNoRoster},
			"HB_ACK from=00112233 seq=101 round=0 epoch=42/f0e0d0c0 roster=none echo=6"},
		{Frame{Kind: HeartAck, Sender: a, Seq: 101, Epoch: e, EchoSeq: 6, AckFlags: RosterBehind},
			"HB_ACK from=00112233 seq=101 round=0 epoch=42/f0e0d0c0 roster=behind echo=6"},
		{Frame{Kind: HeartAck, Sender: a, Seq: 101, Epoch: e, EchoSeq: 6, AckFlags: OutOfRoster},
			"HB_ACK from=00112233 seq=101 round=0 epoch=42/f0e0d0c0 roster=out echo=6"},
		{Frame{Kind: Nominate, Sender: a, Seq: 103, Round: 10, Epoch: e, Reason: NoLeader, Flags: Hop},
			"NOMINATE from=00112233 seq=103 round=10 epoch=42/f0e0d0c0 reason=no-leader flags=hop"},
		{Frame{Kind: Resign, Sender: b, Seq: 30, Epoch: e, Reason: Transfer, Successor: a},
			"RESIGN from=f0e0d0c0 seq=30 round=0 epoch=42/f0e0d0c0 reason=transfer successor=00112233"},
		{Frame{Kind: Resign, Sender: b, Seq: 30, Epoch: e, Reason: LeaseLost},
			"RESIGN from=f0e0d0c0 seq=30 round=0 epoch=42/f0e0d0c0 reason=lease-lost successor=none"},
		{Frame{Kind: ResignAck, Sender: a, Seq: 104, Epoch: e, EchoSeq: 30},
			"RESIGN_ACK from=00112233 seq=104 round=0 epoch=42/f0e0d0c0 echo=30"},
		{Frame{Kind: Probe, Sender: a, Seq: 105, Epoch: e, Purpose: AskOpinion},
			"PROBE from=00112233 seq=105 round=0 epoch=42/f0e0d0c0 purpose=opinion"},
		{Frame{Kind: ProbeAck, Sender: b, Seq: 31, Epoch: e, EchoSeq: 105, Standing: Leading},
			"PROBE_ACK from=f0e0d0c0 seq=31 round=0 epoch=42/f0e0d0c0 standing=leading hbAge=0ms echo=105"},
		{Frame{Kind: Prepare, Sender: b, Seq: 29, Epoch: e},
			"PREPARE from=f0e0d0c0 seq=29 round=0 epoch=42/f0e0d0c0"},
		{Frame{Kind: Ready, Sender: a, Seq: 106, Epoch: e, IsReady: true, EchoSeq: 29},
			"READY from=00112233 seq=106 round=0 epoch=42/f0e0d0c0 ready=true echo=29"},
		{Frame{Kind: Leave, Sender: a, Seq: 107, Epoch: e, Flags: Draining},
			"LEAVE from=00112233 seq=107 round=0 epoch=42/f0e0d0c0 flags=draining"},
		{Frame{Kind: Roster, Sender: b, Seq: 40, Round: 3, Epoch: e, RosterVersion: 1, Phase: Proposed, Count: 2, Voters: [MaxVoters]ID{a, b, {9}}, Flags: AckReq},
			"ROSTER from=f0e0d0c0 seq=40 round=3 epoch=42/f0e0d0c0 version=1 phase=proposed voters=00112233,f0e0d0c0 flags=ack-req"},
		{Frame{Kind: Roster, Sender: b, RosterVersion: 672, Phase: Formed, Count: 1, Voters: [MaxVoters]ID{b}},
			"ROSTER from=f0e0d0c0 seq=0 round=0 epoch=none version=672 phase=formed voters=f0e0d0c0"},
		{Frame{Kind: Roster, Sender: b, Phase: 3},
			"ROSTER from=f0e0d0c0 seq=0 round=0 epoch=none version=0 phase=phase(3) voters=none"},
		{Frame{Kind: Roster, Sender: b, Count: 255, Voters: [MaxVoters]ID{14: a}},
			"ROSTER from=f0e0d0c0 seq=0 round=0 epoch=none version=0 phase=phase(0) voters=" + strings.Repeat("00000000,", 14) + "00112233"},
		{Frame{Kind: RosterAck, Sender: a, Seq: 108, Round: 3, Epoch: e, RosterVersion: 1, AckVerdict: NotVoter, EchoSeq: 40},
			"ROSTER_ACK from=00112233 seq=108 round=3 epoch=42/f0e0d0c0 version=1 verdict=not-voter echo=40"},
		{Frame{Kind: JobClaim, Sender: b, Seq: 41, Round: 7, Epoch: e, Payload: "claim", Flags: AckReq},
			"JOB_CLAIM from=f0e0d0c0 seq=41 round=7 epoch=42/f0e0d0c0 bytes=5 flags=ack-req"},
		{Frame{Kind: JobWitness, Sender: a, Seq: 109, Round: 7, Epoch: e, Why: 24},
			"JOB_WITNESS from=00112233 seq=109 round=7 epoch=42/f0e0d0c0 why=24"},
		{Frame{Kind: JobRecord, Sender: b, Seq: 42, Epoch: e},
			"JOB_RECORD from=f0e0d0c0 seq=42 round=0 epoch=42/f0e0d0c0 bytes=0"},
		{Frame{Kind: LedgerQuery, Sender: b, Seq: 43, Round: 8, Epoch: e, Digest: 0xbeef, Place: 3},
			"LEDGER_QUERY from=f0e0d0c0 seq=43 round=8 epoch=42/f0e0d0c0 digest=beef place=3"},
		{Frame{Kind: LedgerPart, Sender: a, Seq: 110, Round: 8, Epoch: e, Digest: 0xfeed, Place: 3, Parts: 4, Payload: "part"},
			"LEDGER_PART from=00112233 seq=110 round=8 epoch=42/f0e0d0c0 digest=feed place=3 parts=4 bytes=4"},
		{Frame{Kind: 99, Sender: a},
			"KIND(99) from=00112233 seq=0 round=0 epoch=none"},
	} {
		if got := c.frame.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestFlagsText(t *testing.T) {
	for flags, want := range map[Flags]string{
		0: "none", reserved: "none", Active | Fresh: "active,fresh",
		0xff: "ack-req,retx,hop,draining,active,fresh,wait",
	} {
		if got := flags.String(); got != want {
			t.Errorf("%02x: got %s, want %s", uint8(flags), got, want)
		}
	}
}
