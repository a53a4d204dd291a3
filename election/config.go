package election

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Algorithm names one of the algorithms of the literature.
type Algorithm uint8

// The algorithms. Zero means Classic.
const (
	Classic  Algorithm = Algorithm(wire.Classic)  // Garcia-Molina's Bully
	Enhanced Algorithm = Algorithm(wire.Enhanced) // Murshed and Allen's
	Smallest Algorithm = Algorithm(wire.Smallest) // Kabashi, Zeqiri and Zabeli's: the lowest rank leads
)

// String gives the algorithm's word in the configuration.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) && algorithmNames[a] != "" {
		return algorithmNames[a]
	}
	return "unknown"
}

var algorithmNames = [...]string{Classic: "classic", Enhanced: "enhanced", Smallest: "smallest"}

// Policy says when a live leader gives way. Zero means PreemptPriority.
type Policy uint8

// The policies of protocol 4.6.
const (
	PreemptPriority Policy = iota // to a strictly higher priority; equals stay where they are
	PreemptAlways                 // to whoever outranks it: the textbook's rule
	PreemptNever                  // never
)

// String gives the policy's word in the configuration.
func (p Policy) String() string {
	return [...]string{"priority", "always", "never"}[p]
}

// AutoMinAcks is the MinAcks that adapts to the group: 1 while at least two
// others are believed alive, else 0.
const AutoMinAcks = -1

// Config is fixed for the life of a Node. Times are spans; zero means the
// documented default.
type Config struct {
	ID       wire.ID
	Nonce    uint32 // random for each start: tells a restart from a clone
	Cluster  uint32 // wire.ClusterHash of the cluster's name
	Priority uint16
	Part     Part

	Algorithm Algorithm
	Preempt   Policy
	// CandidateSet bounds the candidate set of Enhanced, whose members alone are
	// asked at first. Default: the better half, rounded up.
	CandidateSet int
	// KnownMinimum is the priority of the smallest node that may exist, for
	// Smallest: a node that has it need ask nobody. Zero: not known.
	KnownMinimum uint16
	// Expect is the number of voters. Zero is available mode; three or more is
	// quorum mode: leases come from a majority of a roster of that many.
	Expect int
	// PreemptDelay is how long a better node follows in good health before it
	// asks the leader to hand over. Longer means fewer moves. Default 1 s.
	PreemptDelay time.Duration
	// Settle is how long a node listens before a first election. Longer means
	// that slow starters are still counted. Default 2 s.
	Settle time.Duration
	// JoinWithin is how long the first join may go without an outcome before a first
	// election is held all the same. Longer delays a host that waits for one that is off.
	// Default 0: nobody will say JoinEnded.
	JoinWithin time.Duration
	// TakeoverDelay is waited on top of the lease before taking over from a
	// leader that did not hand over: the time that a lose hook may need on a
	// host that was cut off. Default 0.
	TakeoverDelay time.Duration

	// Heartbeat is H, the interval of the leader's frames. Shorter finds a
	// silent leader sooner and costs N−1 datagrams each. Default 50 ms.
	Heartbeat time.Duration
	// Lease is L: a leader that too few acknowledged for this long lets go,
	// and others wait as long before they take over. Where round trips are short
	// it is ShortestLease. Default 400 ms; at least four heartbeats and more than
	// two stop budgets.
	Lease time.Duration
	// StopBudget is how long before the lease's end a leader without
	// acknowledgements steps down, so that its lose hook has ended by then.
	// It must leave three heartbeats of the lease, or the loss of a single one
	// would depose a leader. Default Lease/4.
	StopBudget time.Duration
	// MinAcks is how many must acknowledge a leader's heartbeats; AutoMinAcks
	// adapts. It counts at most those believed alive.
	MinAcks int
	// MinMembers is how many members that may lead, oneself included and whether
	// or not a bar keeps them from it now, must be present before anybody here does.
	// Default 1.
	MinMembers int

	// HoldDown is what is left of a hold-down (StepDown) that an earlier life
	// began: the node does not stand before. Default 0.
	HoldDown time.Duration

	// KnowsOthers: somebody else is known to belong to the cluster before this life has met anybody, from an
	// earlier life or since the configuration names hosts to join. A host without a link then waits for it.
	KnowsOthers bool

	// Rand is the only source of chance. The Node owns it.
	Rand *rand.Rand
}

// ErrConfig is wrapped by the errors of New.
var ErrConfig = errors.New("election configuration")

func (c Config) withDefaults() (Config, error) {
	c.Algorithm = cmp.Or(c.Algorithm, Classic)
	c.PreemptDelay = cmp.Or(c.PreemptDelay, time.Second)
	c.Settle = cmp.Or(c.Settle, 2*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 50*time.Millisecond)
	c.Lease = cmp.Or(c.Lease, 8*c.Heartbeat)
	c.StopBudget = cmp.Or(c.StopBudget, c.Lease/4)
	c.MinMembers = cmp.Or(c.MinMembers, 1)
	switch {
	case c.ID.IsZero():
		return c, fmt.Errorf("%w: no id", ErrConfig)
	case c.Rand == nil:
		return c, fmt.Errorf("%w: no source of chance", ErrConfig)
	case c.Lease < 4*c.Heartbeat:
		return c, fmt.Errorf("%w: lease %v is shorter than four heartbeats of %v", ErrConfig, c.Lease, c.Heartbeat)
	case c.Expect != 0 && (c.Expect < 3 || c.Expect > wire.MaxVoters):
		return c, fmt.Errorf("%w: %d voters expected; a quorum needs 3 to %d, and 0 is available mode", ErrConfig, c.Expect, wire.MaxVoters)
	case c.Expect != 0 && c.MinMembers > c.Expect:
		return c, fmt.Errorf("%w: %d members must be there, and only the %d voters can lead", ErrConfig, c.MinMembers, c.Expect)
	case strategyOf(c.Algorithm) == nil:
		return c, fmt.Errorf("%w: algorithm %d is unknown", ErrConfig, c.Algorithm)
	case c.Lease <= 2*c.StopBudget:
		return c, fmt.Errorf("%w: lease %v is not longer than two stop budgets of %v", ErrConfig, c.Lease, c.StopBudget)
	case c.Lease-c.StopBudget < 3*c.Heartbeat: // else one lost heartbeat would depose a leader
		return c, fmt.Errorf("%w: stop budget %v leaves less than three heartbeats of %v of the lease %v", ErrConfig, c.StopBudget, c.Heartbeat, c.Lease)
	}
	return c, nil
}

// algo is the mode byte of every frame: frames of another mode are dropped
// (M16).
func (c Config) algo() wire.Algo {
	a := wire.Algo(c.Algorithm)
	if c.Algorithm == Smallest {
		a |= wire.AlgoLowest
	}
	if c.Expect > 0 {
		a |= wire.AlgoQuorum
	}
	if c.Preempt == PreemptNever {
		a |= wire.AlgoSticky
	}
	return a
}

// Hash is the configuration hash of every frame and of the gossiped meta: over
// all that members must agree on for the promises to hold.
func (c Config) Hash() uint32 {
	c, _ = c.withDefaults()
	b := []byte{1, byte(c.algo()), byte(c.Preempt)}
	for _, d := range []time.Duration{c.Heartbeat, c.Lease, c.StopBudget, c.TakeoverDelay} {
		b = binary.BigEndian.AppendUint64(b, uint64(d))
	}
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// outranks is the order of the papers' process ids: (priority, id). The highest
// leads, or with Smallest the lowest.
func (c Config) outranks(ap uint16, a wire.ID, bp uint16, b wire.ID) bool {
	order := cmp.Or(cmp.Compare(ap, bp), a.Compare(b))
	if c.Algorithm == Smallest {
		return order < 0
	}
	return order > 0
}

// mayPreempt says whether a live leader b gives way to a.
func (c Config) mayPreempt(ap uint16, a wire.ID, bp uint16, b wire.ID) bool {
	return c.preemption(ap, a, bp, b) == Preempts
}
