package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// limits bound what clients can cost. Tests
// shorten them.
type limits struct {
	conns     int           // of root and the owner, open at a time; more wait in the kernel's queue
	others    int           // of all others; more are closed at once
	ofOne     int           // of them of one user
	reserved  int           // of followers and of holders, for root and the owner
	followers int           // of them following events
	holders   int           // of them following the lease; below conns with these, so that short requests always get through
	header    time.Duration // for the head of a request
	request   time.Duration // for all of it
	write     time.Duration // for a client to take one answer, or one event
	idle      time.Duration // between two requests on one connection
	beat      time.Duration // between two signs of life on a stream of server-sent events
	grace     time.Duration // for running requests, once the server stops
}

// The numbers without a source are arbitrary, except for one relation: whatever
// holds a connection, other than a follower, lets go within seconds.
var defaultLimits = limits{
	conns:     128,
	others:    112,
	ofOne:     16,
	reserved:  8,
	followers: 24,
	holders:   96,
	header:    3 * time.Second,
	request:   5 * time.Second,
	write:     5 * time.Second,
	idle:      5 * time.Second,
	beat:      15 * time.Second,
	grace:     time.Second,
}

// maxHeader makes 8 KiB: net/http adds 4 KiB to what it is told.
const maxHeader = 8<<10 - 4<<10

// server answers requests out of a Backend. It has no state of its own but the
// counts of followers and what the log was told.
type server struct {
	reading   Reading // what the network may ask, too
	backend   Backend // nil: the network asks
	logger    hclog.Logger
	limits    limits
	access    access
	isPublic  bool       // strangers ask, over the network
	asking    sync.Mutex // of strangers, for jobs
	followers atomic.Int32
	holders   atomic.Int32
	refusals  refusals
}

// Serve answers requests on l until ctx ends, which ends event streams too,
// then closes l and returns nil. Requests that run by then have a second to
// finish. l comes from Listen; on any other listener nobody may change anything,
// since the kernel does not say who asks. A nil logger discards.
func Serve(ctx context.Context, l net.Listener, b Backend, logger hclog.Logger) error {
	return serve(ctx, l, b, logger, defaultLimits)
}

func serve(ctx context.Context, l net.Listener, b Backend, logger hclog.Logger, lim limits) error {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	s := &server{reading: b, backend: b, logger: logger, limits: lim, access: access{owner: os.Geteuid()}}
	if ours, ok := l.(*socket); ok {
		s.access = ours.access
	}
	hs := s.http(ctx)
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(newDoorway(l, lim, s.access)) }()
	select {
	case err := <-ended:
		hs.Close()
		return fmt.Errorf("serve control socket: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), lim.grace)
	defer cancel()
	if hs.Shutdown(grace) != nil {
		hs.Close()
	}
	<-ended
	return nil
}

// peerKey is where a request's context holds its peer.
type peerKey struct{}

// http makes the server. It has no write timeout: how long a command may take
// is the backend's affair, and each answer gets a deadline when it is written.
func (s *server) http(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: s.limits.header,
		ReadTimeout:       s.limits.request,
		IdleTimeout:       s.limits.idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          s.logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, c.RemoteAddr())
		},
	}
}
