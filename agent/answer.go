package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// How others' questions are answered. All of it is arbitrary except for one relation: whoever asks waits for longer.
const (
	askingTime    = 3 * time.Second // to say all of a question
	trying        = 2 * time.Second // what the answer needs to be tried
	answeringTime = 2 * time.Second // to take the answer
	maxAnswers    = 4               // at a time; each costs three pings and a dial, to the member that asks
	answerPause   = time.Second     // between two for one host
)

// asking is what sockets can do for questions; those in memory cannot.
type asking interface {
	Answer(f func(context.Context, net.Conn))
	Knock(ctx context.Context, to netip.AddrPort) error
	Look(at netip.Addr) (seen func() uint64, stop func())
}

var _ asking = (*transport.Transport)(nil)

// answers bound what others' questions cost.
type answers struct {
	mu    sync.Mutex
	under int                      // way
	last  map[netip.Addr]time.Time // of those who were answered in the last answerPause
}

// begin takes a place, or reports that there is none.
func (g *answers) begin(from netip.Addr, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for addr, at := range g.last {
		if now.Sub(at) >= answerPause {
			delete(g.last, addr)
		}
	}
	if _, early := g.last[from]; early || g.under >= maxAnswers {
		return false
	}
	if g.last == nil {
		g.last = make(map[netip.Addr]time.Time)
	}
	g.last[from] = now
	g.under++
	return true
}

func (g *answers) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
}

// answer tells another host what this one sees of it. It runs in a goroutine of its own, and may begin before there are
// members: then there is none to tell of.
func (a *agent) answer(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || !a.answers.begin(from.Addr().Unmap(), a.cfg.Now()) {
		return
	}
	defer a.answers.end()
	_ = conn.SetDeadline(a.deadline(askingTime))
	var q question
	if listen(conn, &q) != nil {
		return
	}
	_ = conn.SetDeadline(a.deadline(trying + answeringTime))
	said := answer{ID: a.view.self.ID.String(), Version: a.cfg.Version, Asked: a.wall().UnixNano(), Source: from.Addr().Unmap().String(),
		MTU: mtuOf(a.shown.Load().addr)}
	if a.hasKey() {
		said.Addresses = a.leads()
	}
	a.try(ctx, q, &said)
	said.Answered = a.wall().UnixNano()
	least := 0
	if q.Large {
		least = largeWords
	}
	_ = say(conn, said, least) // who does not take it has no answer
}

// try finds out what reaches the asker, and what reaches this host of it.
func (a *agent) try(ctx context.Context, q question, said *answer) {
	m, known := q.asker(a.members().Known())
	if said.Knows = known; !known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trying)
	defer cancel()
	seen, stop := a.port.Look(m.Addr.Addr())
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { said.Pinged = a.members().Reaches(ctx, m.Addr) })
	group.Go(func() { said.Knock = whyNot(a.port.Knock(ctx, m.Addr)) })
	group.Go(func() { untilSeen(ctx, seen) })
	group.Wait()
	said.Datagrams = seen()
}

// untilSeen waits for the first datagram: the asker sends some meanwhile.
func untilSeen(ctx context.Context, seen func() uint64) {
	for seen() == 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// whyNot is the reason of a failed dial, in a few words that are the same everywhere; empty for none.
func whyNot(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return "no answer"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return "closed without an answer"
}

// mtuOf is that of the interface which has an address; 0: none has it.
func mtuOf(addr netip.Addr) int {
	interfaces, _ := net.Interfaces() // none is no MTU
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, x := range addrs {
			p, err := netip.ParsePrefix(x.String())
			isAny := err == nil && p.Addr().IsLoopback() && p.Contains(addr) // all of 127.0.0.0/8 is this host's
			if err == nil && (p.Addr().Unmap().WithZone("") == addr || isAny) {
				return i.MTU
			}
		}
	}
	return 0
}

// deadline is for sockets, which know the wall clock alone.
func (a *agent) deadline(in time.Duration) time.Time { return wallClock().Add(in) }

// wall is the wall clock that is compared with others'; tests set it wrong.
func (a *agent) wall() time.Time {
	if a.cfg.Wall != nil {
		return a.cfg.Wall()
	}
	return wallClock()
}
