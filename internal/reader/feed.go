package reader

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Source is the agent, whom a Feed asks on goroutines of its own.
type Source interface {
	control.Reading
	// Families are the metrics, in a form for metrics.Text.
	Families(goRuntime bool) ([]byte, error)
}

// Feed is the agent's hand on its reader: it writes the boards, and answers what the reader asks. Lease and Changed are for
// the agent's loop and never wait.
type Feed struct {
	cfg    httpd.Config
	pair   *httpd.Pair // nil: plain HTTP
	addr   net.Addr
	boards *boards
	socket *os.File // our end
	door   *Door
	desks  [kinds]*desk
}

// Open opens the port, reads the certificate and makes the boards. It takes the rights that the process has now: all else
// needs none.
func Open(cfg httpd.Config) (_ *Feed, err error) {
	f := &Feed{cfg: cfg, door: &Door{}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if cfg.Cert != "" {
		if f.pair, err = httpd.OpenPair(cfg); err != nil {
			return nil, err
		}
	}
	port, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	defer port.Close()
	f.addr = port.Addr()
	if f.door.port, err = listening(port); err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	if f.boards, err = newBoards(); err != nil {
		return nil, err
	}
	f.door.boards = f.boards.readOnly
	if f.socket, f.door.socket, err = sidecar.SocketPair("reader"); err != nil {
		return nil, err
	}
	for k := range kinds {
		f.desks[k] = newDesk()
	}
	return f, nil
}

// lastLife is how long the keeper and the reader of an agent that has just been killed may take to close its port: longer than
// the keeper outwaits a reader that hangs. Else it takes milliseconds.
const lastLife = sidecar.GonePatience + time.Second

func listen(cfg httpd.Config) (port *net.TCPListener, err error) {
	for late := time.Now().Add(lastLife); ; time.Sleep(20 * time.Millisecond) {
		if port, err = httpd.Listen(cfg); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(late) {
			return port, err
		}
	}
}

// Door is what the reader gets of it. It stays the feed's.
func (f *Feed) Door() *Door { return f.door }

// Addr is where the network asks.
func (f *Feed) Addr() net.Addr { return f.addr }

// Close ends the reader, which sees its end of the socket close, and gives the port up.
func (f *Feed) Close() {
	if f.socket != nil {
		f.socket.Close()
	}
	f.door.Close()
	if f.boards != nil {
		f.boards.close()
	}
}

// Lease says until when this host leads, on the clock that all of its processes share; zero: it does not.
func (f *Feed) Lease(until time.Time) {
	was := f.boards.words.lease.Swap(sidecar.Nano(until))
	if until.IsZero() != (was == 0) || was != 0 && was <= sidecar.Nano(sidecar.Now()) {
		f.Changed() // else the host shows what it showed
	}
}

// Changed says that the host may show something else than before.
func (f *Feed) Changed() { f.desks[ofHost].renew() }

// Renew reads the certificate again. After an error the last stays in use.
func (f *Feed) Renew() error {
	if f.pair == nil {
		return nil
	}
	err := f.pair.Renew()
	f.desks[ofPort].renew()
	return err
}

const (
	// showEvery is how often the host is shown at the longest: a reader that sees nothing for some time knows that the
	// agent stands still.
	showEvery = time.Second

	// loopPatience bounds a question that the agent's loop answers.
	loopPatience = 5 * time.Second

	// lastWords is how long Run waits for what is being answered when it ends. Arbitrary.
	lastWords = time.Second
)

// Run feeds the reader until ctx ends, and then once more, so that whoever follows the events sees the last.
func (f *Feed) Run(ctx context.Context, source Source, log hclog.Logger) {
	if f.pair != nil {
		f.pair.Use(log)
	}
	w := &writing{Feed: f, source: source, log: log}
	var all sync.WaitGroup
	for k, answer := range map[kind]answer{ofHost: w.host, ofHistory: w.history, ofJobs: w.jobs, ofExplanation: w.explanation, ofMetrics: w.metrics, ofPort: w.port} {
		all.Go(func() { f.desks[k].run(ctx, func(q question) { w.put(ctx, k, q, answer) }) })
	}
	f.desks[ofPort].renew()
	all.Go(func() { w.events(ctx) })
	all.Go(func() { f.showOften(ctx) })
	go f.hear(ctx)
	<-ctx.Done()
	_ = f.socket.SetReadDeadline(time.Now())
	ended := make(chan struct{})
	go func() { defer close(ended); all.Wait() }()
	select {
	case <-ended:
		w.put(context.WithoutCancel(ctx), ofHost, question{}, w.host)
	case <-time.After(lastWords): // a disk hangs
	}
}

func (f *Feed) showOften(ctx context.Context) {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for f.Changed(); ; f.Changed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// question is what a reader asks: a datagram of a byte for the kind, eight of a number that the answer has, and a text.
type question struct {
	kind   kind
	number uint64 // 0: nobody has asked
	text   string
}

const (
	questionHead = 9
	mostQuestion = 8 << 10 // no request has more
)

func (q question) append(to []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(append(to, byte(q.kind)), q.number), q.text...)
}

func parseQuestion(datagram []byte) (q question, ok bool) {
	if len(datagram) < questionHead || kind(datagram[0]) >= kinds {
		return q, false
	}
	return question{kind(datagram[0]), binary.LittleEndian.Uint64(datagram[1:]), string(datagram[questionHead:])}, true
}

// hear takes the questions of readers, until the socket is closed or Run ends: as many as its desks can answer. A reader that
// asks more finds no room.
func (f *Feed) hear(ctx context.Context) {
	datagram := make([]byte, mostQuestion)
	for pace := (pace{rate.NewLimiter(rate.Limit(perSecond*kinds), atOnce*int(kinds))}); pace.wait(ctx); {
		n, err := f.socket.Read(datagram)
		if err != nil || n == 0 { // all ends of readers, and ours of that, are closed
			return
		}
		if q, ok := parseQuestion(datagram[:n]); ok {
			f.desks[q.kind].ask(q)
		}
	}
}

// answer gives the text for a board.
type answer func(ctx context.Context, text string) ([]byte, error)

// writing is one Run of a feed.
type writing struct {
	*Feed
	source Source
	log    hclog.Logger

	mu     sync.Mutex
	saidAt [kinds]time.Time // that a board cannot be written
}

// The first byte of an answer says whether it is one.
const (
	isAnswer  = 'A'
	isRefusal = 'R' // and why, as JSON
)

// refusal is an APIError with its status.
type refusal struct {
	Status int
	Error  control.APIError
}

func refuse(err error) []byte {
	r := refusal{Status: 500, Error: control.APIError{Message: err.Error()}}
	var known *control.APIError
	if errors.As(err, &known) {
		r = refusal{known.Status, *known}
	}
	text, _ := json.Marshal(r) // numbers and texts always have a JSON form
	return append([]byte{isRefusal}, text...)
}

// put writes the answer to a question on its board, and tells the reader.
func (w *writing) put(ctx context.Context, k kind, q question, answer answer) {
	text, err := answer(ctx, q.text)
	if err != nil {
		text = refuse(err)
	} else {
		text = append([]byte{isAnswer}, text...)
	}
	w.write(k, q.number, text)
}

func (w *writing) write(k kind, number uint64, text []byte) {
	if err := w.boards.write(k, number, text); err != nil {
		w.complain(k, err)
		return
	}
	_ = send(w.socket, []byte{byte(k)}) // a reader that has so much unread sees it when it has read that
}

// complain says once a minute that a board cannot be written.
func (w *writing) complain(k kind, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.saidAt[k].IsZero() || now.Sub(w.saidAt[k]) >= time.Minute {
		w.saidAt[k] = now
		w.log.Error("board not written; the network reads the one before", "board", int(k), "err", err)
	}
}

// A picture is what a host shows at one moment.
type picture struct {
	At      int64 // sidecar.Nano
	Status  json.RawMessage
	Members json.RawMessage
}

func (w *writing) host(context.Context, string) ([]byte, error) {
	at := sidecar.Now()
	status, err := control.PublicJSON(w.source.Status())
	if err != nil {
		return nil, err
	}
	members, err := control.PublicJSON(w.source.Members())
	if err != nil {
		return nil, err
	}
	return json.Marshal(picture{sidecar.Nano(at), status, members})
}

func (w *writing) history(context.Context, string) ([]byte, error) {
	return control.PublicJSON(w.source.History())
}

func (w *writing) jobs(ctx context.Context, text string) ([]byte, error) {
	next, err := strconv.Atoi(text)
	if err != nil || next < 0 || next > control.PublicNextSlots {
		return nil, fmt.Errorf("%q is no number of slots: expected 0 to %d", text, control.PublicNextSlots)
	}
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	all, err := w.source.Jobs(ctx, next)
	if err != nil {
		return nil, err
	}
	return control.PublicJSON(all)
}

func (w *writing) explanation(ctx context.Context, member string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	e, err := w.source.Explain(ctx, member)
	if err != nil {
		return nil, err
	}
	return control.PublicJSON(e)
}

// withRuntime is the question for metrics that wants those of Go's runtime, too.
const withRuntime = "go"

func (w *writing) metrics(_ context.Context, text string) ([]byte, error) {
	return w.source.Families(text == withRuntime)
}

// manner is how the port is to be served.
type manner struct {
	Hosts     []string
	Cert, Key []byte // PEM; none: plain HTTP
}

func (w *writing) port(context.Context, string) ([]byte, error) {
	m := manner{Hosts: w.cfg.Hosts}
	if w.pair != nil {
		w.pair.Look()
		m.Cert, m.Key = w.pair.PEM()
	}
	return json.Marshal(m)
}

// events writes the newest events whenever there is another, at most as often as any board, and all of them as often as that.
func (w *writing) events(ctx context.Context) {
	pace := newPace()
	var lines [][]byte
	size, since := 0, uint64(0)
	for isOver := false; !isOver; {
		fresh, newer := w.source.Events(since)
		for _, e := range fresh {
			since = e.Seq
			line, err := control.PublicJSON(e)
			if err != nil {
				w.complain(ofEvents, err)
				continue
			}
			lines, size = append(lines, line), size+len(line)+1
		}
		for len(lines) > control.RingSize || size > mostText {
			size -= len(lines[0]) + 1
			lines = lines[1:]
		}
		if len(fresh) > 0 || since == 0 {
			w.write(ofEvents, 0, bytes.Join(lines, []byte("\n")))
		}
		select {
		case <-newer:
		case <-ctx.Done():
			isOver = true
		}
		pace.wait(ctx)
		if isOver {
			if last, _ := w.source.Events(since); len(last) > 0 {
				isOver = false // and it comes here once more
			}
		}
	}
}
