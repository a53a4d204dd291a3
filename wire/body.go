package wire

// bodySizes holds the bytes of each kind's body: what Append writes, and the
// least that Parse takes. 0 marks a number that is no kind.
var bodySizes = [kindEnd]uint8{
	Election: 16, Answer: 16, Coordinator: 28, CoordAck: 12, Query: 4, Cid: 12, Heartbeat: 32, HeartAck: 8,
	Nominate: 4, Resign: 20, ResignAck: 4, Probe: 4, ProbeAck: 12, Prepare: 4, Ready: 8, Leave: 4,
	Roster: 8 + 16*MaxVoters, RosterAck: 12, Canvass: 12,
	JobClaim: 4, JobWitness: 4, JobRecord: 4, LedgerQuery: 12, LedgerPart: 16,
	Clients: 8,
}

// payloadSizes holds the offset of the payload's size in the bodies that have a
// payload, plus one. The payload stands behind the fixed fields.
var payloadSizes = [kindEnd]uint8{JobClaim: 1, JobRecord: 1, LedgerPart: 1 + 12, Clients: 1 + 4}

// rosterCount is the offset of count in ROSTER's body. Parse looks at it before
// body does, since voters beyond MaxVoters have no place in a Frame.
const rosterCount = 5

// body moves the fields that hold for f's kind, each at its offset in the
// body. It is the bodies' only description in code; doc.go has the same for
// people, and a test holds the two together. QUERY, PREPARE and LEAVE say
// everything with their header.
//
// c.body has at least bodySizes[f.Kind] bytes; those not named are padding, and
// so is the room of ROSTER's voters beyond its count.
func body(c codec, f *Frame) {
	switch f.Kind {
	case Election:
		u8(c, 0, &f.Reason)
		u8(c, 1, &f.Attempt)
		u32(c, 4, &f.HeartbeatAge)
		u64(c, 8, &f.FailedCounter)
	case Answer:
		u8(c, 0, &f.Verdict)
		u8(c, 1, &f.Attempt)
		u32(c, 4, &f.ETA)
		u32(c, 8, &f.EchoSeq)
		u32(c, 12, &f.HeartbeatAge)
	case Coordinator:
		u8(c, 0, &f.Phase)
		u32(c, 4, &f.Lease)
		u32(c, 8, &f.RosterVersion)
		b16(c, 12, &f.Will)
	case CoordAck:
		u8(c, 0, &f.AckVerdict)
		u32(c, 4, &f.Remain)
		u32(c, 8, &f.EchoSeq)
	case Cid:
		u8(c, 0, &f.Knowledge)
		u32(c, 4, &f.HeartbeatAge)
		u32(c, 8, &f.Remain)
	case Heartbeat:
		u32(c, 0, &f.Lease)
		u32(c, 4, &f.Interval)
		u32(c, 8, &f.RosterVersion)
		u32(c, 12, &f.Late)
		b16(c, 16, &f.Will)
	case HeartAck:
		u32(c, 0, &f.EchoSeq)
		u8(c, 4, &f.AckFlags)
	case Nominate:
		u8(c, 0, &f.Reason)
	case Resign:
		u8(c, 0, &f.Reason)
		b16(c, 4, &f.Successor)
	case ResignAck:
		u32(c, 0, &f.EchoSeq)
	case Probe:
		u8(c, 0, &f.Purpose)
	case ProbeAck:
		u32(c, 0, &f.EchoSeq)
		u32(c, 4, &f.HeartbeatAge)
		u8(c, 8, &f.Standing)
	case Ready:
		truth(c, 0, &f.IsReady)
		u32(c, 4, &f.EchoSeq)
	case Roster:
		u32(c, 0, &f.RosterVersion)
		u8(c, 4, &f.Phase)
		u8(c, rosterCount, &f.Count)
		for i := range f.Voters[:f.Count] {
			b16(c, 8+16*i, &f.Voters[i])
		}
	case RosterAck:
		u8(c, 0, &f.AckVerdict)
		u32(c, 4, &f.EchoSeq)
		u32(c, 8, &f.RosterVersion)
	case Canvass:
		u8(c, 0, &f.Reason)
		u8(c, 1, &f.Attempt)
		u32(c, 4, &f.HeartbeatAge)
		u32(c, 8, &f.RosterVersion)
	case JobClaim, JobRecord:
		payload(c, 0, 4, &f.Payload)
	case JobWitness:
		u8(c, 0, &f.Why)
	case LedgerQuery:
		u64(c, 0, &f.Digest)
		u16(c, 8, &f.Place)
	case LedgerPart:
		u64(c, 0, &f.Digest)
		u16(c, 8, &f.Place)
		u16(c, 10, &f.Parts)
		payload(c, 12, 16, &f.Payload)
	case Clients:
		u16(c, 0, &f.Place)
		u16(c, 2, &f.Parts)
		payload(c, 4, 8, &f.Payload)
	}
}
