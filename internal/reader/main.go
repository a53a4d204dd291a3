package reader

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/page"
	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/rights"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// niceness is how far the reader stands back behind all that is ordinary. Arbitrary.
const niceness = 10

// doorFD is the first descriptor of a reader's Door.
const doorFD = sidecar.SocketFD + 1

// Main is the whole life of a reader process; its result is the exit code.
func Main() int {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error: reader: "+err.Error())
		return 2
	}
	return 0
}

// run serves until the agent or the keeper has ended.
func run() error {
	if err := sidecar.Inherit(doorFD - 1); err != nil {
		return err
	}
	door := Inherit(doorFD)
	if door == nil {
		return sidecar.ErrByHand
	}
	if err := unix.SetNonblock(sidecar.SocketFD, true); err != nil {
		return fmt.Errorf("use socket: %w", err)
	}
	keeper := os.NewFile(sidecar.SocketFD, "keeper")
	if err := realtime.Ordinary(niceness); err != nil {
		return fmt.Errorf("stand back: %w", err)
	}
	_ = time.Now().Local().String() // reads the time zone, while it can
	lacks, err := rights.Confine()
	if err != nil {
		return fmt.Errorf("give up rights: %w", err)
	}
	for _, lack := range lacks {
		_ = send(keeper, append([]byte{isLack}, lack...)) // there is room: these are the first
	}
	return serve(door, keeper, newLog(keeper))
}

// serve answers the network.
func serve(door *Door, keeper *os.File, log hclog.Logger) error {
	port, err := net.FileListener(door.port)
	if err != nil {
		return fmt.Errorf("use port: %w", err)
	}
	door.port.Close()
	agent, err := waiting(door.socket)
	if err != nil {
		return err
	}
	r, err := newRemote(door.boards, agent, rand.Uint64()>>1)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go r.hear()
	go func() { _, _ = io.Copy(io.Discard, keeper); end() }()
	go func() { <-r.gone; end() }()
	beat(ctx, keeper)
	if !r.await(ofPort) || !r.await(ofHost) || !r.await(ofEvents) {
		return port.Close()
	}
	s, err := serverOf(port, r, log)
	if err != nil {
		return err
	}
	log.Info("answering the network", "addr", port.Addr())
	return s.Serve(ctx, control.Public(r, log), page.Handler(), log)
}

// beat says that this process lives, for as long as it does.
func beat(ctx context.Context, keeper *os.File) {
	go func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			_ = send(keeper, []byte{isAlive}) // a keeper that has so many unread knows
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
}

func serverOf(port net.Listener, r *remote, log hclog.Logger) (*httpd.Server, error) {
	m, err := r.manner()
	if err != nil {
		return nil, err
	}
	if len(m.Cert) == 0 {
		return httpd.New(port, m.Hosts, nil), nil
	}
	c := &certificate{remote: r, log: log}
	if err := c.take(m); err != nil {
		return nil, err
	}
	return httpd.New(port, m.Hosts, c.now), nil
}

// lookEvery bounds how often the agent is asked to look at the certificate's files, which is done only while somebody
// connects. Arbitrary.
const lookEvery = 2 * time.Second

// lookPatience bounds the wait for that: whoever connects gets the last one then. Arbitrary.
const lookPatience = 250 * time.Millisecond

// certificate is the one in use.
type certificate struct {
	remote *remote
	log    hclog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	sheet   uint64 // that it is of
	looked  time.Time
}

// now is the certificate to show to whoever connects.
func (c *certificate) now() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookEvery {
		c.looked = time.Now()
		_, _ = c.remote.ask(context.Background(), ofPort, "", lookPatience)
	}
	if number := c.remote.view.number(ofPort); number != c.sheet {
		m, err := c.remote.manner()
		if err == nil {
			err = c.take(m)
		}
		if err != nil {
			c.log.Error("certificate not taken over from the agent; the last stays in use", "err", err)
		}
		c.sheet = number
	}
	return c.current
}

// take makes a certificate of its text; the caller holds mu, or is alone.
func (c *certificate) take(m manner) error {
	cert, err := tls.X509KeyPair(m.Cert, m.Key)
	if err != nil {
		return errors.Join(errors.New("expected a pair in PEM"), err)
	}
	clear(m.Key)
	c.current = &cert
	return nil
}
