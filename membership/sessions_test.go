package membership

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// proofs are sessions in which something has come from lives at any time.
type proofs struct {
	mu   sync.Mutex
	with map[wire.ID]Member
}

// of has a session with each of these lives.
func (p *proofs) of(lives ...Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.with = make(map[wire.ID]Member)
	for _, m := range lives {
		p.with[m.ID] = m
	}
}

func (p *proofs) Heard(id wire.ID, nonce uint32) (incarnation uint32, addr netip.AddrPort, at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.with[id]
	return m.Incarnation, m.Addr, time.Now(), ok && m.Nonce == nonce
}

func lifeOf(name string) Member {
	m := selfOf(name)
	m.Addr = addrOf(name)
	return m
}

// A life that answers each ping is told once a session has proved it, with the number that the session shows.
func TestALifeIsToldByItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSite(t), &proofs{}
		alpha := s.startWith("alpha", func(cfg *Config) { cfg.Sessions = p })
		s.start("beta", "alpha")
		time.Sleep(10 * time.Second)
		alpha.hears()
		elsewhere := lifeOf("beta")
		elsewhere.Addr = addrOf("delta")
		p.of(elsewhere)
		time.Sleep(10 * time.Second)
		alpha.hears()
		proven := lifeOf("beta")
		proven.Incarnation = 7
		p.of(proven)
		time.Sleep(10 * time.Second)
		alpha.hears("joined beta#7")
	})
}

// What gossip says of a life that has proved itself, its number, its address, that it leaves or that it is dead, changes
// nothing. Only its silence ends it.
func TestALifeEndsByItsSilence(t *testing.T) {
	l, now, beta := newLives(), time.Now(), lifeOf("beta")
	l.joined(beta, now)
	l.answered(beta, time.Millisecond, now)
	if got := l.take(); len(got) != 1 || got[0].Kind != Joined {
		t.Fatalf("told %v, want that it has joined", got)
	}
	made := beta
	made.Incarnation, made.Addr = 1<<32-1, addrOf("delta")
	l.updated(made, now)
	made.Leaving = true
	l.gone(made, now)
	if got := l.take(); len(got) != 0 || !l.isHeld(beta) {
		t.Errorf("told %v by hearsay", got)
	}
	l.unanswered(beta, now)
	if got := l.take(); len(got) != 1 || got[0].Kind != Failed {
		t.Errorf("told %v of its silence, want that it has failed", got)
	}
}

// A life that was asked since it was heard, and did not answer, has ended by this host's own evidence: it is not asked anew.
func TestASilentLifeEndsAtOnce(t *testing.T) {
	l, now, beta := newLives(), time.Now(), lifeOf("beta")
	l.joined(beta, now)
	l.answered(beta, time.Millisecond, now)
	l.take()
	if _, ask := l.doubted(beta.ID, beta.Nonce, now.Add(2*time.Second)); !ask {
		t.Fatal("a suspect is not asked")
	}
	l.unanswered(beta, now.Add(3*time.Second))
	l.gone(beta, now.Add(4*time.Second))
	if got := l.take(); len(got) != 1 || got[0].Kind != Failed {
		t.Errorf("told %v, want that it has failed", got)
	}
}

// Lives that others make up of a host leave room for the one that it has begun.
func TestMadeUpLivesLeaveRoomForAProvenOne(t *testing.T) {
	m := &Membership{proof: &proofs{}, lives: newLives()}
	for n := range uint32(2 * maxLives) {
		made := lifeOf("beta")
		if made.Nonce += n + 1; m.checkRoom(made) == nil {
			m.lives.joined(made, time.Now())
		}
	}
	if m.checkRoom(lifeOf("beta")) == nil {
		t.Error("there is room for all that is made up")
	}
	m.proof.(*proofs).of(lifeOf("beta"))
	if r := m.checkRoom(lifeOf("beta")); r != nil {
		t.Errorf("a life with a session is refused: %v", r)
	}
}
