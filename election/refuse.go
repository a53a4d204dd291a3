package election

import "errors"

// Why a Command is refused or failed: what Reply.Err wraps. Each is one plain
// sentence without a prefix, so that the agent can show it as it is and add the
// names that only it knows.
var (
	// ErrNotLeader is replied when StepDown, HandOver or Forget is asked of a
	// node that does not lead.
	ErrNotLeader = errors.New("this host does not lead")
	// ErrUnknownMember is replied when HandOver names a member that this node
	// has never seen, or Forget one that is neither seen nor in the roster.
	ErrUnknownMember = errors.New("there is no such member")
	// ErrDeadMember is replied when HandOver names a member that does not
	// answer or has left.
	ErrDeadMember = errors.New("that member does not answer")
	// ErrObserverMember is replied when HandOver names a member that never
	// leads: an observer, a witness, or a voter outside the roster.
	ErrObserverMember = errors.New("that member takes no part in elections as a candidate, so it cannot lead")
	// ErrSelf is replied when HandOver or Forget names the node itself.
	ErrSelf = errors.New("that is this host itself")
	// ErrNobodyReady is replied when the hand-over found nobody who is ready to
	// take over: the member asked for, or with StepDown any other. The leader
	// goes on leading.
	ErrNobodyReady = errors.New("nobody is ready to take over, so this host goes on leading")
	// ErrBusy is replied when another hand-over, stop or change of the roster is
	// under way.
	ErrBusy = errors.New("another change is under way")
	// ErrTakenBack is replied to Maintain when its bar was taken away before this leader
	// had begun to hand over.
	ErrTakenBack = errors.New("it was taken back meanwhile")
	// ErrLostMeanwhile is replied when leadership was lost before the command
	// was done: somebody else may lead now, but nothing was handed over.
	ErrLostMeanwhile = errors.New("this host lost its leadership before the command was done")
	// ErrNotQuorum is replied when Forget is asked for in available mode, which
	// has no roster.
	ErrNotQuorum = errors.New("available mode has no voters to forget")
	// ErrNotVoter is replied when Forget names a member that is not in the
	// roster.
	ErrNotVoter = errors.New("that member is not among the voters")
	// ErrVoterAlive is replied when Forget names a voter that is alive, without
	// Force: it would never vote again under its id.
	ErrVoterAlive = errors.New("that voter is alive, and forgetting is for good")
	// ErrVoterListed is replied when Forget names a voter that is alive and in the host list, which would take it in again.
	ErrVoterListed = errors.New("that voter is alive, and hosts names it")
	// ErrRosterTooSmall is replied when Forget would leave one voter alone.
	ErrRosterTooSmall = errors.New("fewer than two voters would be left")
	// ErrRosterPending is replied when Forget is asked for before the last
	// change of the roster has reached a majority of the voters, or while too
	// few of those that would be left acknowledge the leader.
	ErrRosterPending = errors.New("too few voters acknowledge this leader or its last change of the voters; try again")
	// ErrVersionsUsedUp is replied when Forget is asked of a leader that has made
	// all the changes of the roster that one epoch has numbers for.
	ErrVersionsUsedUp = errors.New("the voters were changed 15 times in this epoch, the most that one epoch allows; " +
		"step-down starts a new epoch, then forget it on the host that leads")
	// ErrCounterTooHigh is replied when Forget is asked for in an epoch whose
	// counter is too high for the number of a roster; those to come are higher.
	ErrCounterTooHigh = errors.New("the epoch counter is above 268435455, and the voters can no longer be changed; " +
		"a new cluster, with new state directories on all hosts, starts from 1")
)
