package election

import "github.com/bully-agent/bully-agent/wire"

// Preemption says whether a node may ask a leader that lives to hand over to it.
type Preemption uint8

// The answers of the policy (protocol 4.6).
const (
	NoPreemption     Preemption = iota // it follows nobody
	Preempts                           // it may
	PreemptForbidden                   // the policy is never
	PreemptEqual                       // by priority, and theirs are equal: whoever leads stays
	PreemptOutranked                   // the leader is the better one
	preemptionCount
)

var preemptionWords = [preemptionCount]string{NoPreemption: "none", Preempts: "preempts", PreemptForbidden: "forbidden", PreemptEqual: "equal", PreemptOutranked: "outranked"}

// String gives the answer's word.
func (p Preemption) String() string { return preemptionWords[p] }

// preemption is what the policy says of a under the leader b. It is policy, and
// not the order: a random id is no reason to move a running service.
func (c Config) preemption(ap uint16, a wire.ID, bp uint16, b wire.ID) Preemption {
	switch {
	case c.Preempt == PreemptNever:
		return PreemptForbidden
	case c.Preempt == PreemptPriority && ap == bp:
		return PreemptEqual
	case !c.outranks(ap, a, bp, b):
		return PreemptOutranked
	}
	return Preempts
}
