package examples

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// plane is a host of the control plane, on which a TLS server stands for the API server.
type plane struct {
	*agent
	server *httptest.Server
	isSick atomic.Bool // /livez says 500
}

// planes is the example on three hosts, and a client that knows the address alone.
type planes struct {
	t      *testing.T
	all    []*plane
	client *netlab.Host
}

func newPlanes(t *testing.T) *planes {
	t.Helper()
	p := &planes{t: t}
	curl, net := tool(t, "curl"), newLAN(t)
	for i, name := range []string{"alpha", "beta", "gamma"} {
		a := net.install(name, fmt.Sprintf("192.168.1.%d/24", 11+i), "kubernetes-api/agent.toml", func(text string) string {
			return strings.ReplaceAll(text, "/usr/bin/curl", curl)
		})
		here := &plane{agent: a}
		here.serve()
		p.all = append(p.all, here)
	}
	p.client = net.plug("client", "192.168.1.99/24")
	for _, a := range p.all {
		a.start()
	}
	return p
}

// serve starts the server, which listens on all addresses as an API server does.
func (p *plane) serve() {
	p.t.Helper()
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" && p.isSick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, p.name)
	}))
	p.server.Listener.Close()
	err := p.host.Within(func() (err error) {
		p.server.Listener, err = net.Listen("tcp4", ":6443")
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // who hangs up has reasons
	p.server.StartTLS()
	p.t.Cleanup(p.server.Close)
}

// has reports whether the host has the address.
func (p *plane) has() (has bool) {
	p.t.Helper()
	err := p.host.Within(func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			has = has || a.String() == "192.168.1.50/32"
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return has
}

// sees is the host whose server answers the client now.
func (p *planes) sees() string {
	through := &http.Transport{DialContext: dialFrom(p.client), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // httptest's certificate has other names
	answer, err := (&http.Client{Transport: through, Timeout: time.Second}).Get("https://192.168.1.50:6443/version")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// moved waits until the client sees one of these hosts, and no two have the address.
func (p *planes) moved(why string, to ...*plane) (holder *plane) {
	p.t.Helper()
	begin := time.Now()
	eventually(p.t, why+": the client sees another host", func() bool {
		name := p.sees()
		for _, a := range to {
			if a.name == name {
				holder = a
			}
		}
		return holder != nil
	})
	p.t.Logf("%s: the client sees %s after %v", why, holder.name, time.Since(begin).Round(time.Millisecond))
	var holders []string
	for _, a := range p.all {
		if a.cmd != nil && a.has() {
			holders = append(holders, a.name)
		}
	}
	if len(holders) > 1 {
		p.t.Errorf("%s: %v have the address", why, holders)
	}
	return holder
}

// others are the hosts but one.
func (p *planes) others(but *plane) (rest []*plane) {
	for _, a := range p.all {
		if a != but {
			rest = append(rest, a)
		}
	}
	return rest
}

// The address is on a host whose API server is well: it leaves one whose server says 500, one whose server is gone, and
// one that died.
func TestAddressIsWhereTheAPIServerIsWell(t *testing.T) {
	t.Parallel()
	p := newPlanes(t)
	p.all[0].isSick.Store(true)
	first := p.moved("one is sick at the start", p.others(p.all[0])...)
	last := p.all[0]
	second := p.others(first)[0]
	if second == last {
		second = p.others(first)[1]
	}
	first.isSick.Store(true)
	p.moved("/livez says 500", second)
	last.isSick.Store(false)
	second.server.CloseClientConnections()
	second.server.Close()
	p.moved("the server is gone", last)
	first.isSick.Store(false)
	last.die()
	p.moved("the host died", first)
}
