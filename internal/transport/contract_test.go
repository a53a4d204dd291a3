package transport_test

import (
	"net/netip"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
)

func TestContract(t *testing.T) {
	lantest.Contract(t, func(t *testing.T, part func(*testing.T, lantest.Open)) {
		part(t, func(t *testing.T) transport.LAN {
			tr, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tr.Shutdown() })
			return tr
		})
	})
}
