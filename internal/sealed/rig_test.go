package sealed

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

func testKey(n byte) key.Key {
	k := key.Key{Secret: sha256.Sum256([]byte{n})}
	k.ID = key.IDOf(k.Secret)
	return k
}

func testID(n int) wire.ID { return wire.ID{0: byte(n), 15: 1} }

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
	t := session.New(session.Config{Self: session.Life{ID: testID(n)}, Addr: at(n), Cluster: "home", Rand: rand.Reader, Number: 1 << 61})
	t.SetKeys(time.Unix(1, 0), key.Ring{testKey(1)})
	return t
}
