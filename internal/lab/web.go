package lab

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
	"github.com/bully-agent/bully-agent/internal/page"
)

// web serves the page of a lab on loopback, with buttons that do its agents harm.
//
// Who may press one:
//
//  1. A program of this host that knows the token, which is in the address that the lab prints and nowhere else: not who has
//     another account here, and no web page, which cannot read it.
//  2. With a browser, only from the page itself: the Host is this address (no name that a foreign page has resolve to it), the
//     Origin is the same, and the request is one that a foreign page would have to ask for first (JSON, with a header of its own).
type web struct {
	board    *board
	listener net.Listener
	token    string
}

const (
	// defaultPage is where the page is without an address: the port that the kernel picks.
	defaultPage = "127.0.0.1:0"

	tokenHeader = "Bully-Lab-Token"
	mostAct     = 1 << 10 // bytes of an order
	webPatience = 5 * time.Second
)

// openWeb listens on the address, which must be of loopback.
func openWeb(b *board, address string) (*web, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open page: %w", err)
	}
	return &web{board: b, listener: l, token: rand.Text()}, nil
}

// validatePage wants an address of loopback: whoever reaches the page may watch, and who has the token may kill.
func (o *Options) validatePage() error {
	switch {
	case !o.Page && o.PageAddr != "":
		return usage("--page is off, and has the address %s", o.PageAddr)
	case !o.Page:
		return nil
	case o.Script != "" || o.Fault != "" || o.Watch > 0 || o.JSON:
		return usage("--page is driven by hand: leave out --script, --fault, --watch and --json")
	case o.PageAddr == "":
		return nil
	}
	at, err := netip.ParseAddrPort(o.PageAddr)
	if err != nil || !at.Addr().IsLoopback() {
		return usage("--page=%s: expected a loopback address and a port, such as 127.0.0.1:7952: the page kills agents", o.PageAddr)
	}
	return nil
}

// address is where to open the page; the token is in the part that browsers keep to themselves.
func (w *web) address() string { return "http://" + w.host() + "/#" + w.token }

func (w *web) host() string { return w.listener.Addr().String() }

// serve answers until ctx ends.
func (w *web) serve(ctx context.Context) {
	hs := &http.Server{Handler: w.handler(), ReadHeaderTimeout: webPatience, ReadTimeout: webPatience, MaxHeaderBytes: 8 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = hs.Close() })
	_ = hs.Serve(w.listener) // it ends with ctx
}

func (w *web) handler() http.Handler {
	forBrowsers, mux := page.LabHandler(), http.NewServeMux()
	mux.Handle("GET /{$}", forBrowsers)
	mux.Handle("GET /page/", forBrowsers)
	mux.Handle("/v1/", control.Public(w.board, nil))
	mux.HandleFunc("GET /lab/nodes", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, http.StatusOK, w.board.lab.conditions()) })
	mux.Handle("POST /lab/act", w.guarded(http.HandlerFunc(w.act)))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Content-Type-Options", "nosniff")
		rw.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Host != w.host() {
			refuse(rw, http.StatusMisdirectedRequest, fmt.Errorf("asked for %q: expected %s", r.Host, w.host()))
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// guarded lets through what somebody has pressed who may.
func (w *web) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case origin != "" && origin != "http://"+w.host() || site != "" && site != "same-origin":
			refuse(rw, http.StatusForbidden, errors.New("another page asks: expected the lab's own"))
		case subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(w.token)) != 1:
			refuse(rw, http.StatusForbidden, errors.New("the token is missing or wrong: open the address that the lab has printed"))
		case r.Header.Get("Content-Type") != "application/json":
			refuse(rw, http.StatusUnsupportedMediaType, errors.New("expected application/json"))
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// order is what somebody wants done.
type order struct {
	Node string `json:"node"`
	Do   string `json:"do"`
}

func (w *web) act(rw http.ResponseWriter, r *http.Request) {
	var o order
	lines := json.NewDecoder(http.MaxBytesReader(rw, r.Body, mostAct))
	lines.DisallowUnknownFields()
	if err := lines.Decode(&o); err != nil {
		refuse(rw, http.StatusBadRequest, fmt.Errorf(`%w: expected {"node":"n1","do":"kill"}`, err))
		return
	}
	if err := w.board.lab.obey(o); err != nil {
		refuse(rw, http.StatusConflict, err)
		return
	}
	answer(rw, http.StatusOK, w.board.lab.conditions())
}

// obey does what a button says, one at a time with the keyboard.
func (l *lab) obey(o order) error {
	n, err := l.node(o.Node)
	if err != nil || o.Node == targetLeader {
		return fmt.Errorf("no such node: %q", o.Node)
	}
	l.hands.Lock()
	defer l.hands.Unlock()
	switch o.Do {
	case faultKill, faultStop, faultPause, faultCut, faultHandOver:
		_, err = n.inflict(o.Do)
	case "continue":
		err = n.wake()
	case "restart":
		err = n.start()
	case "plug":
		_, err = n.pull(verdict.Plugged)
	default:
		err = fmt.Errorf("no such order: %q", o.Do)
	}
	return err
}

// condition is what the lab knows of a node's process and cable.
type condition struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`   // 0: none
	State string `json:"state"` // running, paused, or how it ended
	Cable string `json:"cable"` // in, pulled; empty: it has none
	Leads bool   `json:"leads"`
}

func (l *lab) conditions() (all []condition) {
	leader, _ := l.leader()
	for _, n := range l.nodes {
		c := condition{Name: n.name, Leads: n.name == leader.Node}
		c.State, c.PID = n.condition()
		if n.host != nil {
			c.Cable = "in"
			if n.isSevered() {
				c.Cable = "pulled"
			}
		}
		all = append(all, c)
	}
	return all
}

func answer(rw http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v) // what is answered here always has a JSON form
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.WriteHeader(status)
	_, _ = rw.Write(append(body, '\n')) // whoever went away does not need it
}

func refuse(rw http.ResponseWriter, status int, why error) {
	answer(rw, status, map[string]string{"error": strings.ReplaceAll(why.Error(), "\n", " ")})
}

// present serves the page, beside the live table if there is a terminal, until the user quits or ctx ends.
func (l *lab) present(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan struct{})
	defer func() {
		cancel()
		<-served
	}()
	go func() {
		defer close(served)
		l.web.serve(ctx)
	}()
	go l.web.board.run(ctx)
	if l.isLive() {
		return l.live(ctx)
	}
	fmt.Fprintf(l.Out, "the page is at %s; Ctrl-C ends the lab\n\n", l.web.address())
	<-ctx.Done()
	return ctx.Err()
}
