package paper

// kind says what a message is. The names are those of protocol 2.3.
type kind uint8

const (
	election kind = iota
	answer
	coordinator
	query
	cid // a coordinator's id, to who queried
	kinds
)

// message is one datagram. Ids are small; a storm has millions of messages.
type message struct {
	kind     kind
	from, to int32
	about    int32 // coordinator, cid: who leads
}

// process is one node's side of an algorithm.
type process interface {
	start() // it has noticed that the leader failed
	join()  // it has just come up and knows no leader
	receive(message)
	expire(round int) // the time that it asked for in that round has ended
}

// The papers set times only as "long enough". A request and its answer take two
// units, and what arrives at an instant comes before what expires then. From a
// starter's deadline to the coordinator's message it takes two more units when
// the winner started one unit later; twice that is enough.
const (
	answerTime      = 2
	coordinatorTime = 4
)

// alarm is a time asked for.
type alarm struct{ id, round int }

// network carries messages between nodes 1 to n and counts them.
type network struct {
	processes []process // by id; none at 0
	dead      []bool    // by id
	// spared is a dead node that no election is addressed to, because it is known
	// to have failed; 0: none.
	spared int

	now     int
	flying  []message // arrive at now + 1
	alarms  map[int][]alarm
	pending int // alarms not yet due
	sent    tally
}

func newNetwork(n int) *network {
	return &network{processes: make([]process, n+1), dead: make([]bool, n+1), alarms: map[int][]alarm{}}
}

func (net *network) size() int { return len(net.processes) - 1 }

// send addresses one message to every node from first to last but the sender,
// as one broadcast, and returns how many those are.
func (net *network) send(k kind, from, about, first, last int) int {
	addressed := 0
	for to := first; to <= last; to++ {
		if to == from || k == election && to == net.spared {
			continue
		}
		addressed++
		net.sent[k].Sent++
		if !net.dead[to] {
			net.sent[k].Live++
			net.flying = append(net.flying, message{kind: k, from: int32(from), to: int32(to), about: int32(about)})
		}
	}
	if addressed > 0 {
		net.sent[k].Broadcast++
	}
	return addressed
}

// toAll is a broadcast.
func (net *network) toAll(k kind, from, about int) {
	net.send(k, from, about, 1, net.size())
}

// reply is a message to the sender of another.
func (net *network) reply(k kind, to message, about int) {
	net.send(k, int(to.to), about, int(to.from), int(to.from))
}

// wake calls expire after some units of time.
func (net *network) wake(id, round, units int) {
	due := net.now + units
	net.alarms[due] = append(net.alarms[due], alarm{id, round})
	net.pending++
}

// run goes on until nothing is left that could happen.
func (net *network) run() {
	for len(net.flying) > 0 || net.pending > 0 {
		net.step()
	}
}

// step is one unit of time. Arrivals come before alarms, and each in the order
// in which they were asked for.
func (net *network) step() {
	net.now++
	arriving := net.flying
	net.flying = nil
	for _, m := range arriving {
		if !net.dead[m.to] {
			net.processes[m.to].receive(m)
		}
	}
	due := net.alarms[net.now]
	delete(net.alarms, net.now)
	net.pending -= len(due)
	for _, a := range due {
		if !net.dead[a.id] {
			net.processes[a.id].expire(a.round)
		}
	}
}
