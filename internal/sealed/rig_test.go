package sealed

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

func testKey(n byte) key.Key {
	k := key.Key{Secret: sha256.Sum256([]byte{n})}
	k.ID = key.IDOf(k.Secret)
	return k
}

func testHost(n int) identity.Private {
	return identity.FromBytes([identity.Size]byte{1: byte(n), 31: 1})
}

func testID(n int) wire.ID { return testHost(n).Public().ID() }

func at(n int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:7950", n)) }

// written is a net.Conn that keeps what is written.
type written struct {
	net.Conn
	b []byte
}

func (w *written) Write(b []byte) (int, error) {
	w.b = append(w.b, b...)
	return len(b), nil
}
func (*written) SetDeadline(time.Time) error { return nil }

// newTestTable is what makes the handshakes of a host that is no LAN of a test.
func newTestTable(n int) *session.Table {
	t := session.New(session.Config{Key: testHost(n), Addr: at(n), Cluster: "home", Rand: rand.Reader})
	t.SetKeys(time.Unix(1, 0), key.Ring{testKey(1)})
	return t
}
