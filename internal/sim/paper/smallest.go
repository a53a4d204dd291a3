package paper

// smallest is a node of the smallest-id algorithm of Kabashi, Zeqiri and Zabeli.
// The starter asks all; the better ones answer; it announces the best of them,
// in its stead. With the shortcut, the second minimum, which is the best node
// except for the failed leader, announces itself instead: when it notices the
// failure, and for each time that it is asked.
type smallest struct {
	net *network
	id  int
	smallestRules

	leader   int // followed; 0: none known
	best     int // that answered; 0: none
	electing bool
}

// smallestRules is what all nodes of a run know.
type smallestRules struct {
	second    int // the second minimum, which takes the shortcut; 0: it is off
	minimum   int // the smallest id that may exist; 0: not known
	incumbent int // whom all but a joiner follow at first
}

func newSmallest(rules smallestRules) algorithm {
	return func(net *network, id int) process {
		return &smallest{net: net, id: id, smallestRules: rules, leader: rules.incumbent}
	}
}

func (p *smallest) start() {
	if p.id == p.second {
		p.announce(p.id)
		return
	}
	p.electing, p.best = true, 0
	p.net.toAll(election, p.id, 0)
	p.net.wake(p.id, 0, answerTime)
}

// join: the known minimum leads without a question; others ask who leads. What
// they do when nobody says so the paper does not tell: they wait for ever.
func (p *smallest) join() {
	p.leader = 0
	if p.id == p.minimum {
		p.announce(p.id)
		return
	}
	p.net.toAll(query, p.id, 0)
}

func (p *smallest) receive(m message) {
	switch m.kind {
	case election:
		p.challenged(m)
	case answer:
		if p.best == 0 || int(m.from) < p.best {
			p.best = int(m.from)
		}
	case coordinator:
		p.obey(int(m.about))
	case query:
		if p.leader == p.id {
			p.net.reply(cid, m, p.id)
		}
	case cid:
		p.learn(int(m.about))
	}
}

func (p *smallest) challenged(m message) {
	switch {
	case p.id == p.second:
		p.announce(p.id)
	case p.id < int(m.from):
		p.net.reply(answer, m, 0)
	}
}

// obey: by rule 6 a worse coordinator is contradicted, each time, since the rule
// has no memory. All contradict each other then, exponentially often; if each
// did so once only, those that speak at the same time would go on following
// whomever they heard last.
func (p *smallest) obey(leader int) {
	if leader > p.id {
		p.announce(p.id)
		return
	}
	p.leader, p.electing = leader, false
}

func (p *smallest) learn(leader int) {
	if p.id < leader {
		p.announce(p.id)
		return
	}
	p.leader = leader
}

func (p *smallest) expire(int) {
	switch {
	case !p.electing:
	case p.best != 0:
		p.announce(p.best)
	default:
		p.announce(p.id)
	}
}

func (p *smallest) announce(winner int) {
	p.leader, p.electing = winner, false
	p.net.toAll(coordinator, p.id, winner)
}
