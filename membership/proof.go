package membership

import (
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxAsking bounds how many lives are asked at once. Each takes a probe's timeout
	// at most, so that what is made up holds true ones up for seconds.
	maxAsking = 256

	// askTimes is how often one is asked before memberlist's own probes are waited for.
	askTimes = 3
)

// questions are the lives that wait to be asked whether they are there. Membership's
// mu guards it.
type questions struct {
	waiting []question
	running int           // goroutines that ask
	created chan struct{} // closed once Membership.list may be used
}

type question struct {
	node   string // its name in memberlist
	member Member
}

// ask has a life asked that nobody has vouched for, if it waits for that. It may be
// called with memberlist's lock held.
func (m *Membership) ask(n *memberlist.Node) {
	member, r := m.admit.check(n)
	if r != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.lives.waits(member) || len(m.questions.waiting) >= maxMembers {
		return
	}
	m.put(question{n.Name, member})
}

// put has a question asked. Its caller holds mu.
func (m *Membership) put(q question) {
	m.questions.waiting = append(m.questions.waiting, q)
	if m.questions.running < maxAsking {
		m.questions.running++
		go m.askAll()
	}
}

// doubt is told that another host suspects a node: it is asked whether it lives.
func (m *Membership) doubt(node []byte) {
	id, nonce, ok := parseNodeName(node)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.questions.waiting) >= maxMembers {
		return
	}
	if member, ask := m.lives.doubted(id, nonce, time.Now()); ask {
		m.put(question{nodeName(id, nonce), member})
	}
}

// askHeld asks a life that memberlist has ended now, if lives holds it.
func (m *Membership) askHeld(n *memberlist.Node) {
	member, r := m.admit.check(n)
	if r != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.lives.isHeld(member) {
		return
	}
	m.put(question{n.Name, member})
	m.keepAsking(question{n.Name, member})
}

// keepAsking asks a life for as long as it is held.
func (m *Membership) keepAsking(q question) {
	every := heldEvery
	if q.member.Leaving {
		every = leavingEvery
	}
	time.AfterFunc(every, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed || !m.lives.isHeld(q.member) {
			return
		}
		if m.lives.askAgain(q.member, time.Now()) {
			m.put(q)
		}
		m.rejoin.lostMember()
		m.keepAsking(q)
	})
}

// askAll asks one after the other until none is left.
func (m *Membership) askAll() {
	<-m.questions.created
	for {
		q, any := m.nextQuestion()
		if !any {
			return
		}
		m.askOne(q)
	}
}

func (m *Membership) nextQuestion() (q question, any bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.questions.waiting) == 0 {
		m.questions.running--
		return question{}, false
	}
	q = m.questions.waiting[0]
	m.questions.waiting = m.questions.waiting[1:]
	return q, true
}

func (m *Membership) askOne(q question) {
	for range askTimes {
		if !m.stillWaits(q.member) {
			return
		}
		asked := time.Now()
		rtt, err := m.list.Ping(q.node, udpAddr(q.member.Addr))
		if err == nil && m.noteAnswer(q.member, rtt, asked) {
			return
		}
	}
	m.noteSilence(q.member)
}

func udpAddr(a netip.AddrPort) net.Addr { return net.UDPAddrFromAddrPort(a) }

func (m *Membership) stillWaits(member Member) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closed && m.lives.isAsked(member)
}

// noteAnswer takes an answer to a ping that was sent at a time, and reports whether it is one of that life.
func (m *Membership) noteAnswer(member Member, rtt time.Duration, asked time.Time) bool {
	member, isIt := m.firstHand(member, asked)
	if !isIt {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.lives.answered(member, rtt, time.Now()) {
		m.foundOut(member)
	}
	return true
}

func (m *Membership) noteSilence(member Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.lives.unanswered(member, time.Now()) {
		m.foundOut(member)
	}
}
