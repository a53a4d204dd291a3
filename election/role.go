package election

import "github.com/bully-agent/bully-agent/wire"

// Role is what users see of a node.
type Role uint8

// The roles.
const (
	RoleFollower Role = iota + 1
	RoleCandidate
	RoleLeader
	RoleObserver
)

// String gives the role's word.
func (r Role) String() string {
	switch r {
	case RoleFollower:
		return "follower"
	case RoleCandidate:
		return "candidate"
	case RoleLeader:
		return "leader"
	case RoleObserver:
		return "observer"
	}
	return "unknown"
}

// State is where a node stands in the protocol; it refines Role.
type State uint8

// The states of protocol section 3, in the order of a usual life.
const (
	Start    State = iota + 1 // listening for a leader before a first election
	Follow                    // a leader is known and heard
	Suspect                   // it is silent; probing it and asking others
	Stagger                   // there is no leader; waiting our turn by rank
	Elect                     // challenging those who outrank us
	Wait                      // a better node answered; waiting for its COORDINATOR
	Claiming                  // our COORDINATOR is out, not yet acknowledged by enough
	Lead                      // leading
	Stopping                  // led; the lose hook runs
	Observe                   // takes no part
)

var stateNames = [...]string{Start: "start", Follow: "follow", Suspect: "suspect", Stagger: "stagger",
	Elect: "elect", Wait: "wait", Claiming: "claim", Lead: "lead", Stopping: "stopping", Observe: "observe"}

// String gives the state's word.
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return "unknown"
}

// Role is what users see of a node in this state.
func (s State) Role() Role {
	switch s {
	case Stagger, Elect, Wait, Claiming:
		return RoleCandidate
	case Lead, Stopping:
		return RoleLeader
	case Observe:
		return RoleObserver
	default:
		return RoleFollower
	}
}

// standing is the state as PROBE_ACK reports it.
func (s State) standing() wire.Standing {
	switch s {
	case Start:
		return wire.Starting
	case Follow, Suspect:
		return wire.Following
	case Lead:
		return wire.Leading
	case Stopping:
		return wire.Stopping
	case Observe:
		return wire.Observing
	default:
		return wire.Candidate
	}
}
