package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// machine is one host: what outlives its processes, and the process that runs
// on it now.
type machine struct {
	number   int // 1, 2, …: n1, n2, … in traces
	id       wire.ID
	cfg      election.Config // of the next process
	clock    clock
	disk     disk
	hooks    hookHost
	haves    haves
	boots    int  // counts up when an agent is to start
	hasStood bool // in any life: others may have seen it lose the lead, which makes it wait (M38)
	linkUp   bool
	far      time.Duration // its share of the way to another
	port     uint16
	wiped    byte             // how often its disk was: part of the id
	former   []wire.ID        // that it had before its disk was lost
	key      identity.Private // in the state directory; none with a port in clear
	copyOf   *machine
	burst    bool // what it sends is in a burst of losses

	hostDown  bool     // off, not only without its process
	starting  bool     // cleans up after the last life
	asleep    []func() // what waits until the host is suspended no more
	refusals  int      // unreachables sent lately
	refusedAt int64
	immortal  bool // the failure detectors do not notice its end
	restored  bool // its state is older than what others know of it

	keysSwapped bool // its ring begins with the second of the cluster's keys

	checkFails bool      // a check of the host's fails
	illOf      int       // which
	findings   []finding // of its checks, that no agent has heard
	maintained bool      // an operator is at work on it
	unlists    bool      // its host list lacks the host that was taken out

	accepted wire.Epoch // highest that it followed or led while its disk took writes, in all its lives (I6)

	process
	witness
	jobs jobHost
}

// process is one life of the agent. Its zero value does not run.
type process struct {
	node   *election.Node
	lan    port
	chance *rand.PCG // of the node
	life   int32     // counts up at every start and every end
	nonce  uint32
	bornAt int64 // by its own clock

	inherited time.Duration // longest promise of the lives before
	debt      wire.Epoch    // whose lose hook the last life has left, and this one began beside
	client    client

	frozen    bool // stopped by a signal: its host goes on
	suspended bool // with its host
	busy      bool // waits for its disk
	backlog   []election.Event
	frames    int // of them

	effects []election.Effect // of the present step, carried out up to next
	next    int
	tickAt  int64 // the planned tick that counts; 0: none
	spins   int   // ticks in a row at one instant
	spunAt  int64

	checked    [2]hooks.CheckState // what it knows of the host's checks
	isBarred   bool                // as it has told its node
	awakeSince int64               // true time from which it has not been stopped

	stall      stall // before which effect it is stopped
	crashAt    Fault // which boundary the process dies at, if crashIn is set
	crashIn    int   // boundaries left; 0: none
	saveDown   bool  // the last save failed and none succeeded since
	leaving    bool  // told to leave
	gone       bool  // has left
	refused    bool  // another agent has its id and stays, or its state is an older copy
	isOlder    bool  // the latter
	hasMet     bool  // another host that has a receipt of a later life of it
	isChanging bool  // refused to hand over, since another change was under way
	mustEnd    bool  // as soon as its lose hook has ended

	tether       election.Tether
	tetherStands bool
	tetherGone   bool // it ended: datagrams are answered by the host
	hangs        bool // the streams to it stay open when it ends
}

// witness is what the invariants remember of a machine.
type witness struct {
	state     election.State
	epoch     wire.Epoch // of the last Transition in this life (I6)
	leader    wire.ID
	lease     int64 // published end on its own clock; 0: none
	leaseSeen bool  // published at all since it leads
	reign     int   // number of its leadership, in the order of true time; 0: none

	heardEpoch wire.Epoch // leader whose frames arrive
	heardAt    int64      // last one
	freshFrom  int64      // since when they came without a gap

	ackAt         []int64 // by machine: when the last frame was sent whose acknowledgement of its epoch was taken in
	asked         askings
	need          int
	forgivenAt    int64
	viewChangedAt int64

	claimsSeen  [8]claimSeen
	claimsCount int

	lostReigns   int            // in this life
	lastLost     election.Cause // why the last of them ended
	followsSince int64
	shown        wire.Epoch    // last of its own that it announced
	grantAsked   time.Duration // since its last claim, at most
	offered      offered       // the last roster that it told others
	forgets      []wire.ID     // whom it was told to take out of the roster
	waited       bool          // for its disk, in the present step
	forgedAt     int64         // its tether was ended by somebody between
	overLease    int64         // end of the lease that was lost last, on its own clock
}

// claimSeen is a CLAIM taken in, to tell a grant from a mere acknowledgement.
type claimSeen struct {
	from int
	seq  uint32
}

// offered is a roster as a frame carries it.
type offered struct {
	version uint32
	voters  []wire.ID
}

func (m *machine) addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(m.number >> 8), byte(m.number)}), m.port)
}

// machineAt gives the machine that an address belongs to; nil: nobody's.
func (w *World) machineAt(a netip.AddrPort) *machine {
	b := a.Addr().As4()
	if n := int(b[2])<<8 + int(b[3]); n > 0 && n <= len(w.machines) {
		return w.machines[n-1]
	} else if in := w.attack.insider; in != nil && n == in.host.number {
		return in.host
	}
	return nil
}

func (m *machine) runs() bool { return m.node != nil }

// isUp: the process is there and takes things in.
func (m *machine) isUp() bool { return m.node != nil && !m.frozen && !m.suspended }

// isBlocked: what comes has to wait.
func (m *machine) isBlocked() bool { return m.frozen || m.suspended || m.busy }

// member is the machine as a failure detector describes it.
// digest is what the host says of its list.
func (m *machine) digest() uint64 {
	if m.unlists {
		return digestOut
	}
	return 0
}

func (m *machine) member(s election.Presence, nonce uint32, rtt time.Duration) election.Member {
	return election.Member{ID: m.id, Addr: m.addr(), Incarnation: m.disk.state.Incarnation, Nonce: nonce,
		Priority: m.cfg.Priority, Part: m.cfg.Part, Status: s, RTT: rtt, List: m.digest()}
}
