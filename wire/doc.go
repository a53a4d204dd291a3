// Package wire encodes and parses the frames of the election and of singleton
// jobs, and defines their messages. It knows bytes and names; what a message
// does is package election's and package jobs'.
//
// A frame is one datagram: a header of 76 bytes, a body whose layout follows
// from the kind, and a checksum of 4 bytes. Numbers are big endian, identities
// are the 16 bytes of a UUID, spans and ages are whole milliseconds.
//
// # Header
//
//	off size field
//	  0   2  magic           b7 1e; gossip on the same port never starts with b7
//	  2   1  version         major in the high four bits, minor in the low: 30
//	  3   1  kind            Kind
//	  4   2  length          of the whole frame, trailer included: 80 to 1200
//	  6   1  algo            see below
//	  7   1  flags           see below
//	  8   4  cluster         ClusterHash of the cluster's name
//	 12   4  config_hash     over the settings that all members share
//	 16  16  sender
//	 32   4  incarnation     counts the sender's lives
//	 36   4  nonce           random for each life
//	 40   4  seq             new for each transmission, also of a repetition
//	 44   4  round           the originator's; replies echo it
//	 48   8  epoch_counter
//	 56  16  epoch_owner     zero for no epoch
//	 72   2  priority        the sender's
//	 74   2  seat            number of the leadership: 0, see below
//	 76   b  body
//	76+b  4  crc32c          Castagnoli, over all bytes before it
//
// # Bodies
//
// Offsets count from the start of the frame. Padding is sent zero and ignored.
//
//	ELECTION (1), 16 bytes
//	 76   1  reason
//	 77   1  attempt         0 at first
//	 78   2  pad
//	 80   4  heartbeat_age   ms since the sender heard its leader
//	 84   8  failed_counter  epoch counter of the leader believed dead
//
//	ANSWER (2), 16 bytes
//	 76   1  verdict
//	 77   1  attempt         echoed
//	 78   2  pad
//	 80   4  eta             ms until the sender expects to have announced
//	 84   4  echo_seq
//	 88   4  heartbeat_age   ms
//
//	COORDINATOR (3), 28 bytes
//	 76   1  phase
//	 77   3  pad
//	 80   4  lease           ms
//	 84   4  roster_version  of the roster
//	 88  16  will            hash of a secret, see below; zero for none
//
//	COORD_ACK (4), 12 bytes
//	 76   1  ack_verdict
//	 77   3  pad
//	 80   4  remain          ms that a promise to another still runs
//	 84   4  echo_seq
//
//	QUERY (5), 4 bytes
//	 76   4  pad
//
//	CID (6), 12 bytes
//	 76   1  knowledge
//	 77   3  pad
//	 80   4  heartbeat_age   ms
//	 84   4  remain          ms that the leader's lease still runs
//
//	HEARTBEAT (7), 32 bytes
//	 76   4  lease           ms
//	 80   4  interval        ms to the next one
//	 84   4  roster_version  of the roster
//	 88   4  late            ms since it was sent first; 0 unless it is repeated
//	 92  16  will            as in COORDINATOR
//
//	HB_ACK (8), 8 bytes
//	 76   4  echo_seq
//	 80   1  ack_flags       bit 0: knows no roster, 1: has an older one, 2: is in none
//	 81   3  pad
//
//	NOMINATE (9), 4 bytes
//	 76   1  reason
//	 77   3  pad
//
//	RESIGN (10), 20 bytes
//	 76   1  reason
//	 77   3  pad
//	 80  16  successor       zero for nobody
//
//	RESIGN_ACK (11), 4 bytes
//	 76   4  echo_seq
//
//	PROBE (12), 4 bytes
//	 76   1  purpose
//	 77   3  pad
//
//	PROBE_ACK (13), 12 bytes
//	 76   4  echo_seq
//	 80   4  heartbeat_age   ms
//	 84   1  standing
//	 85   3  pad
//
//	PREPARE (14), 4 bytes
//	 76   4  pad
//
//	READY (15), 8 bytes
//	 76   1  is_ready        1 is yes, everything else no
//	 77   3  pad
//	 80   4  echo_seq
//
//	LEAVE (16), 4 bytes
//	 76   4  pad
//
//	ROSTER (17), 248 bytes
//	 76   4  roster_version  of this roster
//	 80   1  phase           of ROSTER, see below
//	 81   1  count           how many of the voters hold: at most 15
//	 82   2  pad
//	 84 240  voters          15 times 16; those beyond count are padding
//
//	ROSTER_ACK (18), 12 bytes
//	 76   1  ack_verdict
//	 77   3  pad
//	 80   4  echo_seq
//	 84   4  roster_version  of the sender's roster
//
//	CANVASS (19), 12 bytes
//	 76   1  reason
//	 77   1  attempt         0 at first
//	 78   2  pad
//	 80   4  heartbeat_age   ms since the sender heard its leader
//	 84   4  roster_version  of the sender's roster
//
//	JOB_CLAIM (20), 4 bytes
//	 76   2  size            bytes of the payload: at most 1100
//	 78   2  pad
//	 80   0  payload         as many as size says: a claim
//
//	JOB_WITNESS (21), 4 bytes
//	 76   1  why             why not, see below
//	 77   3  pad
//
//	JOB_RECORD (22), 4 bytes
//	 76   2  size            bytes of the payload: at most 1100
//	 78   2  pad
//	 80   0  payload         as many as size says: one job's part of a ledger
//
//	LEDGER_QUERY (23), 12 bytes
//	 76   8  digest          of the sender's ledger, if place is 0
//	 84   2  place           the part that is asked for, from 0
//	 86   2  pad
//
//	LEDGER_PART (24), 16 bytes
//	 76   8  digest          of the sender's ledger
//	 84   2  place           which part of it this is, from 0
//	 86   2  parts           how many there are; 0 if the digests are equal
//	 88   2  size            bytes of the payload: at most 1100
//	 90   2  pad
//	 92   0  payload         as many as size says: a part of a ledger
//
//	CLIENTS (128), 8 bytes
//	 76   2  place           which part of the list this is, from 0
//	 78   2  parts           how many there are, at least one
//	 80   2  size            bytes of the payload: at most 1100
//	 82   2  pad
//	 84   0  payload         as many as size says: a part of the list
//
// The epoch and round of a JOB_CLAIM or LEDGER_QUERY are those of the leadership
// that claims or asks; the reply echoes both. A payload is in the format of
// internal/jobs/encode.go, with a version and a checksum of its own.
//
// The round of CLIENTS is that of the list: its parts have it in common. Its payload is one
// connection of TCP after the other: a byte that says 4 or 6 for the family, then
// address and port of the leader's end, then those of the client's.
//
// # Will
//
// A will is no frame: it has no checksum, and goes in clear on a port that seals its
// frames, too. It has 48 bytes: magic b7 d1, the version, 13 zero bytes that are ignored,
// and the secret of 32 bytes. Of that follow, by BLAKE2s-256,
//
//	commitment = hash of: "will secret 1", secret
//	will       = first 16 bytes of the hash of: "will 1", cluster (4 bytes), seat (2),
//	             epoch_counter (8), epoch_owner (16), incarnation (4), nonce (4),
//	             commitment (32)
//
// # Enumerations and bits
//
//	algo         bits 0–3: 1 classic, 2 enhanced, 3 smallest
//	             bit 4 lowest rank leads, 5 quorum, 6 sticky, 7 paper
//	flags        bit 0 ack-req, 1 retx, 2 reserved, 3 hop, 4 draining, 5 active,
//	             6 fresh, 7 wait
//	reason       1 leader-failed, 2 boot, 3 preempt, 4 no-leader, 5 transfer,
//	             6 abandoned, 7 lease-lost, 8 superseded (6 to 8:
//	             RESIGN only)
//	verdict      0 ok, 1 leader-alive, 2 yes, 3 leased, 4 stale, 5 hold,
//	             6 ineligible
//	ack_verdict  0 accept, 1 stale, 2 leased, 3 hold, 4 not-voter
//	phase        1 claim, 2 active; of ROSTER: 1 proposed, 2 formed
//	knowledge    0 none, 1 knows, 2 leads
//	purpose      0 leader, 1 opinion
//	standing     0 starting, 1 following, 2 candidate, 3 leading, 4 stopping,
//	             5 observing
//	why          0 witnessed; else the number of package jobs' Reason
//
// A span of 2³²−1 ms means "that long or longer", and an age of as much "never
// heard".
//
// # Seat
//
// One group of agents has one leadership, number 0. The number has its place in
// the header so that the agents of a later version can hold several side by
// side, each with epochs and rounds of its own; until then a frame of any other
// is refused, since taking it for one of seat 0 would mix two elections.
//
// # Versions
//
// Members of one major version understand each other; a frame of another
// major is dropped. A minor version may do three things, and no others:
//
//   - append fields to a body, behind its payload if it has one. Older readers
//     ignore them. A newer reader takes a frame that ends before them, and reads
//     them as zero; so zero must mean "not said". The sizes above are minima for
//     ever, to which a payload adds its own.
//   - use the reserved flag or a padding byte, which are sent zero and ignored on
//     receipt until then.
//   - add kinds. 25–127 are dropped by those who do not know them, so a
//     sender must be able to do without the reply; 128–255 are announcements
//     that may be ignored without loss.
//
// A new value of an enumeration (Reason, Verdict and so on) parses; package
// election decides what an unknown value means, and ignores the frame if it
// means nothing.
//
// # Trust
//
// The checksum finds damage, not forgery. With a key a frame goes sealed, in the
// datagrams of internal/session, and its sender is proven; without one whoever can
// send to the port can write a frame that is accepted, within the bounds of package
// election.
//
// Vectors of every kind, readable without this code, are in testdata/wire.
package wire
