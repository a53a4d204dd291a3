package paper

// classic is a node of the classic Bully: ask those above, and lead if they are
// silent; whoever is asked answers and asks those above in turn.
//
// The textbooks do not say when "unless it has started an election already"
// ends. Here a node starts by being asked at most once in a run; the guard does
// not hold back a node that waited in vain for a coordinator.
type classic struct {
	net       *network
	id        int
	unguarded bool // starts again whenever it is asked (CE9)

	started  bool
	answered bool
	waiting  bool // for a coordinator, having been answered
	leader   int  // learnt since it started; 0: none
	round    int
}

func newClassic(net *network, id int) process { return &classic{net: net, id: id} }

func newUnguarded(net *network, id int) process { return &classic{net: net, id: id, unguarded: true} }

func (p *classic) start() {
	p.started, p.answered, p.waiting, p.leader = true, false, false, 0
	p.round++
	if p.net.send(election, p.id, 0, p.id+1, p.net.size()) == 0 {
		p.announce()
		return
	}
	p.net.wake(p.id, p.round, answerTime)
}

// join: whoever comes up holds an election, which is how the bully came by its
// name.
func (p *classic) join() { p.start() }

func (p *classic) receive(m message) {
	switch m.kind {
	case election:
		p.net.reply(answer, m, 0)
		if !p.started || p.unguarded {
			p.start()
		}
	case answer:
		p.answered = true
	case coordinator:
		p.leader = int(m.about)
	}
}

func (p *classic) expire(round int) {
	switch {
	case round != p.round || p.leader != 0:
	case !p.answered:
		p.announce()
	case !p.waiting:
		p.waiting = true
		p.net.wake(p.id, p.round, coordinatorTime)
	default: // whoever answered died since (CE3)
		p.start()
	}
}

func (p *classic) announce() {
	p.leader = p.id
	p.net.toAll(coordinator, p.id, p.id)
}
