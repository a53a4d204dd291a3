package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// httpFlood is a number of clients that want as much as they can get.
type httpFlood struct {
	name    string
	sources int
	each    int // connections of one source
	bits    int // of the certificate's RSA key; 0: plain HTTP
}

var (
	handshakes = httpFlood{name: "handshakes", sources: 1, each: 16, bits: 4096}
	plain      = httpFlood{name: "plain", sources: 8, each: 32}
)

// Whoever keeps a leader's port for readers busy, within all its limits, does not depose it: not with
// the dearest handshakes, and not with the dearest requests. It is a matter of milliseconds, on a machine that does nothing else.
func TestHTTPFloodDeposesNobody(t *testing.T) {
	isLong(t)
	const rounds, lasting = 10, 8 * time.Second
	for _, tt := range []struct {
		flood   httpFlood
		lease   string
		options []string
	}{
		{handshakes, "250ms", nil},
		{handshakes, "400ms", nil},
		{handshakes, "250ms", []string{"--expect", "3"}},
		{handshakes, "400ms", []string{"--expect", "3"}},
		{plain, "250ms", nil},
		{plain, "400ms", nil},
		{plain, "250ms", []string{"--expect", "3"}},
		{plain, "400ms", []string{"--expect", "3"}},
	} {
		t.Run(fmt.Sprint(tt.flood.name, " ", tt.lease, tt.options), func(t *testing.T) {
			l := newLAN(t, 3, append(tt.options, "--http-listen", "0.0.0.0:7951")...)
			l.env = append(l.env, "BULLY_LEASE="+tt.lease)
			if tt.flood.bits > 0 {
				cert, key := l.certificate(tt.flood.bits)
				l.options = append(l.options, "--http-cert-file", cert, "--http-key-file", key)
			}
			l.start()
			leader := l.best()
			l.agreeOn(leader)
			for i := range tt.flood.sources {
				l.ip(l.net.Switch(), fmt.Sprintf("addr add 10.78.%d.%d/24 dev %s", l.number, 100+i, netlab.Bridge))
			}
			for range rounds {
				before, err := leader.status()
				must(t, err)
				cpu := leader.cpuTime()
				got := l.floodHTTP(leader, tt.flood, lasting)
				t.Logf("%d were served in %v; the leader's agent took %.0f %% of a processor", got, lasting, 100*(leader.cpuTime()-cpu).Seconds()/lasting.Seconds())
				after, err := leader.status()
				must(t, err)
				if !after.LeaderIsSelf || after.Epoch != before.Epoch {
					t.Errorf("epoch %d before, %d after; it leads: %v; %q", before.Epoch.Counter, after.Epoch.Counter, after.LeaderIsSelf, transitions(l.hosts))
				}
				if got == 0 {
					t.Error("nobody was served: there was no attack")
				}
			}
		})
	}
}

// certificate makes a pair that signs itself.
func (l *lan) certificate(bits int) (cert, key string) {
	secret, err := rsa.GenerateKey(rand.Reader, bits)
	must(l.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "h3"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	must(l.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(secret)
	must(l.t, err)
	cert, key = filepath.Join(l.dir, "cert.pem"), filepath.Join(l.dir, "key.pem")
	must(l.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(l.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	return cert, key
}

// floodHTTP has the clients shake hands, or ask for all metrics, again and again, and gives how
// often they were served.
func (l *lan) floodHTTP(h *host, f httpFlood, lasting time.Duration) (served int64) {
	target := net.JoinHostPort(h.addr.Addr().String(), strconv.Itoa(pagePort))
	end := time.Now().Add(lasting)
	var all sync.WaitGroup
	var n atomic.Int64
	for i := range f.sources * f.each {
		all.Go(func() {
			_ = l.net.Switch().Within(func() error {
				for time.Now().Before(end) {
					conn := dialFrom(l, i%f.sources, target)
					switch {
					case conn == nil:
					case f.bits == 0:
						n.Add(askOn(conn, "/metrics", end))
					default:
						_ = conn.SetDeadline(end.Add(time.Second))
						if tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake() == nil {
							n.Add(1)
						}
						conn.Close()
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	return n.Load()
}
