package httpd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// limits bound what strangers can cost. Tests shorten them. All are arbitrary; a load balancer or
// Prometheus has one or two connections, a page in a browser at most six.
type limits struct {
	conns   int           // open at a time
	fromOne int           // of them from one source
	header  time.Duration // for the head of a request
	read    time.Duration // for all of it
	write   time.Duration // for a client to take its answer; an event stream has its own for each event
	idle    time.Duration // between two requests: longer than the intervals of load balancers and Prometheus
	grace   time.Duration // for running requests, once the server stops

	// What costs processor time, which others of this host need as well. A plain connection
	// costs 0.1 to 0.2 ms, a handshake with an RSA key of 4096 bits 5 ms, a request of all
	// metrics 0.6 ms: none of the three may have more than a fifth of a processor for long.
	opened     allowance // plain connections
	handshakes allowance // connections with TLS
	requests   allowance
}

var defaultLimits = limits{
	conns:   256,
	fromOne: 32,
	header:  3 * time.Second,
	read:    5 * time.Second,
	write:   5 * time.Second,
	idle:    60 * time.Second,
	grace:   time.Second,

	opened:     allowance{all: pace{64, 48}, fromOne: pace{32, 32}},
	handshakes: allowance{all: pace{20, 8}, fromOne: pace{10, 8}}, // a browser opens six at once
	requests:   allowance{all: pace{200, 10}, fromOne: pace{100, 50}, patience: 2 * time.Second},
}

// maxHeader makes 8 KiB: net/http adds 4 KiB to what it is told.
const maxHeader = 8<<10 - 4<<10

// Config is where to listen, and as whom.
type Config struct {
	Listen    netip.AddrPort
	Cert, Key string   // files of the certificate and its key; both or none: plain HTTP
	Hosts     []string // names, besides those that nobody can register, by which this host is asked; lower case
	Trusted   []uint32 // users besides root who may own the key's file, and read it
}

// Listen opens the port, which takes the rights that the process has now.
func Listen(cfg Config) (*net.TCPListener, error) {
	network := "tcp" // of both families, if it is [::]
	if cfg.Listen.Addr().Is4() {
		network = "tcp4"
	}
	l, err := net.Listen(network, cfg.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	return l.(*net.TCPListener), nil
}

// Server serves an open port, and needs no rights for that.
type Server struct {
	port        net.Listener
	hosts       []string                // as in Config
	certificate func() *tls.Certificate // the one for whoever connects now; nil: plain HTTP
	limits      limits
}

// New makes a server for an open port.
func New(port net.Listener, hosts []string, certificate func() *tls.Certificate) *Server {
	return &Server{port: port, hosts: hosts, certificate: certificate, limits: defaultLimits}
}

// Serve answers with api until ctx ends, which ends streams too, then closes the port and
// returns nil. Browsers, which ask for text/html, get page where there is one; and so does what
// they ask for below /page/. A nil page: there is none. A nil logger discards.
func (s *Server) Serve(ctx context.Context, api, page http.Handler, logger hclog.Logger) error {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	hs := &http.Server{
		Handler:           paced(newBudget(s.limits.requests), bare(refuseForeign(s.hosts, withPage(api, page)))),
		ReadHeaderTimeout: s.limits.header,
		ReadTimeout:       s.limits.read,
		WriteTimeout:      s.limits.write,
		IdleTimeout:       s.limits.idle,
		MaxHeaderBytes:    maxHeader,
		Protocols:         new(http.Protocols),
		ErrorLog:          logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), // strangers' mistakes
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return withSource(ctx, sourceOf(c.RemoteAddr()))
		},

		DisableGeneralOptionsHandler: true, // OPTIONS * is a request as others are
	}
	hs.Protocols.SetHTTP1(true) // a connection of HTTP/2 could carry any number of requests at once
	var port net.Listener
	if s.certificate == nil {
		port = newBounded(s.port, s.limits, s.limits.opened)
	} else {
		port = tls.NewListener(newBounded(s.port, s.limits, s.limits.handshakes), &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate(), nil }})
	}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(port) }()
	select {
	case err := <-ended:
		hs.Close()
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.grace)
	defer cancel()
	if hs.Shutdown(grace) != nil {
		hs.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// withPage sends browsers to the page.
func withPage(api, page http.Handler) http.Handler {
	if page == nil {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isForPage := strings.HasPrefix(r.URL.Path, "/page/") || r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
		if isForPage && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			page.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// bare refuses requests that carry something, which none here does, and says of all answers
// that they are of this moment and nobody else's.
func bare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Cache-Control", "no-store")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.ContentLength != 0 {
			head.Set("Connection", "close")
			refuse(w, http.StatusRequestEntityTooLarge, "a request carries no body here", "ask with GET")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse says why, as control's refusals do.
func refuse(w http.ResponseWriter, status int, message, hint string) {
	body, _ := json.Marshal(map[string]string{"error": message, "hint": hint}) // strings always have a JSON form
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
