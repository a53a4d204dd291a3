package attack

import (
	"crypto/rand"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
)

// Caller begins sessions as who has the members' key does. Its INITs are right, so that each costs whom it calls what a true
// one costs, wherever it says to come from.
type Caller struct {
	Cluster string
	Ring    key.Ring
	Key     identity.Private // of a host of its own
}

// Init begins a session with whoever is at an address: no two are the same.
func (c Caller) Init(to netip.AddrPort) (init []byte) {
	t := session.New(session.Config{Key: c.Key, Incarnation: 1, Addr: netip.AddrPortFrom(to.Addr(), 1), Cluster: c.Cluster, Rand: rand.Reader,
		Emit: func(_ netip.AddrPort, b []byte) error {
			init = append([]byte(nil), b...)
			return nil
		}})
	now := time.Now()
	t.SetKeys(now, c.Ring)
	_ = t.Send(now, to, []byte{labelMsg}) // which waits for the session
	return init
}
