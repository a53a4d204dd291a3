package paper

// enhanced is a node of Murshed and Allen's enhanced Bully. The best half are
// candidates, and whoever starts asks only them; those asked answer and start
// nothing. The starter announces the best that answered, in its stead.
//
// Its tie-breaker for starters at the same time is left out: its formula is not
// known here.
type enhanced struct {
	net *network
	id  int

	leader     int // followed; 0: none known
	best       int // that answered in this round
	electing   bool
	lastPhase  bool // no more to ask when this round ends in silence
	querying   bool
	round      int
	candidates int // the lowest id among them
}

func newEnhanced(leader int) algorithm {
	return func(net *network, id int) process {
		n := net.size()
		return &enhanced{net: net, id: id, leader: leader, candidates: n - (n+1)/2 + 1}
	}
}

func (p *enhanced) ordinary() bool { return p.id < p.candidates }

func (p *enhanced) start() {
	p.electing, p.best, p.lastPhase = true, 0, !p.ordinary()
	p.ask(election, max(p.id+1, p.candidates), p.net.size())
}

// join: rule 4a.
func (p *enhanced) join() {
	p.leader, p.querying = 0, true
	p.ask(query, max(p.id+1, p.candidates), p.net.size())
}

// ask sends to some, and waits for their answers if there are any to ask.
func (p *enhanced) ask(k kind, first, last int) {
	p.round++
	if p.net.send(k, p.id, 0, first, last) == 0 {
		p.decide()
		return
	}
	p.net.wake(p.id, p.round, answerTime)
}

func (p *enhanced) receive(m message) {
	switch m.kind {
	case election:
		p.net.reply(answer, m, 0)
	case answer:
		p.best = max(p.best, int(m.from))
	case coordinator:
		p.leader, p.electing = int(m.about), false
	case query:
		p.net.reply(cid, m, p.leader)
	case cid:
		if p.querying {
			p.learn(int(m.about))
		}
	}
}

// learn: rule 4c. A joiner asks its betters only, so that with right candidate
// sets it never finds itself better than the leader.
func (p *enhanced) learn(leader int) {
	p.leader, p.querying = leader, false
	if leader < p.id {
		p.start()
	}
}

func (p *enhanced) expire(round int) {
	if round == p.round {
		p.decide()
	}
}

func (p *enhanced) decide() {
	switch {
	case p.querying: // nobody told it who leads
		p.querying = false
		p.start()
	case !p.electing:
	case p.best != 0:
		p.announce(p.best)
	case !p.lastPhase: // no candidate is alive: the better ordinary nodes
		p.lastPhase = true
		p.ask(election, p.id+1, p.candidates-1)
	default:
		p.announce(p.id)
	}
}

// announce is by proxy: the winner itself learns it by this message.
func (p *enhanced) announce(winner int) {
	p.leader, p.electing = winner, false
	p.net.toAll(coordinator, p.id, winner)
}
