package reader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/metrics"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// How long a reader waits for an answer.
const (
	// freshFor is how old a picture may be before a newer one is asked for: as often as the agent makes one.
	freshFor = time.Second / perSecond

	// freshPatience bounds the wait for a newer picture; what there is will do. Arbitrary.
	freshPatience = 50 * time.Millisecond

	// answerPatience bounds the wait for what only the agent can answer: longer than its loop is waited for, or a disk.
	answerPatience = loopPatience + time.Second

	// quietFor is how long nothing of a kind is asked after no answer has come.
	quietFor = time.Second
)

// errSilent is returned for a question that the agent has not answered.
var errSilent = &control.APIError{Status: http.StatusServiceUnavailable, Code: "standstill", Message: "the agent does not answer its reader",
	Hint: "see bully-agent status on that host, and whether it is stopped or its machine is busy"}

// remote is the agent, as its reader knows it. It implements control.Reading.
type remote struct {
	view   *view
	socket *os.File
	news   [kinds]bell
	gone   chan struct{} // closed when the agent has ended, or is about to

	asked [kinds]struct {
		turn       chan struct{} // capacity 1: holds the token of whoever asks
		quietUntil time.Time
		last       question  // that was answered
		at         time.Time // when it was asked
	}
	numbers atomic.Uint64

	mu   sync.Mutex
	seen uint64          // the sheet that the events are of
	kept []control.Event // the newest, oldest first; never changed, but replaced
}

func newRemote(boards, socket *os.File, first uint64) (*remote, error) {
	v, err := newView(boards)
	if err != nil {
		return nil, err
	}
	r := &remote{view: v, socket: socket, gone: make(chan struct{})}
	r.numbers.Store(first) // another than that of the reader before
	for k := range kinds {
		r.news[k].ring()
		r.asked[k].turn = make(chan struct{}, 1)
	}
	return r, nil
}

// A bell wakes those who wait for the next time that it rings.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next ring
}

func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
	}
	b.next = make(chan struct{})
}

// hear rings for each board that was written, until the agent has ended. A word that was lost is made up for by the next:
// what was written is seen from the boards themselves.
func (r *remote) hear() {
	defer close(r.gone)
	var seen [kinds]uint64
	datagram := make([]byte, 1)
	for {
		if n, err := r.socket.Read(datagram); err != nil || n == 0 {
			return
		}
		for k := range kinds {
			if number := r.view.number(k); number != seen[k] {
				seen[k] = number
				r.news[k].ring()
			}
		}
	}
}

// await returns when something is on a board; false: the agent has ended before.
func (r *remote) await(k kind) bool {
	for {
		news := r.news[k].listen()
		if r.view.number(k) > 0 {
			return true
		}
		select {
		case <-news:
		case <-r.gone:
			return false
		}
	}
}

// read gives what is on a board, without asking.
func (r *remote) read(k kind) ([]byte, error) {
	s, err := r.view.read(k)
	if err != nil {
		return nil, err
	}
	return opened(s)
}

// opened takes an answer out of a sheet, or the refusal.
func opened(s sheet) ([]byte, error) {
	switch {
	case len(s.text) == 0:
		return nil, errSilent
	case s.text[0] == isAnswer:
		return s.text[1:], nil
	}
	var r refusal
	if err := json.Unmarshal(s.text[1:], &r); err != nil {
		return nil, fmt.Errorf("decode refusal: %w", err)
	}
	r.Error.Status = r.Status
	return nil, &r.Error
}

// ask has the agent answer a question, and waits for that.
func (r *remote) ask(ctx context.Context, k kind, text string, patience time.Duration) ([]byte, error) {
	if len(text) > mostQuestion-questionHead {
		return nil, &control.APIError{Status: http.StatusRequestURITooLong, Message: "the question is too long"}
	}
	its := &r.asked[k]
	select {
	case its.turn <- struct{}{}:
		defer func() { <-its.turn }()
	case <-ctx.Done():
		return nil, errSilent // nobody hears it
	}
	asked := time.Now()
	if asked.Before(its.quietUntil) {
		return nil, errSilent
	}
	if text == its.last.text && asked.Sub(its.at) < freshFor { // somebody has just asked the same
		if s, err := r.view.read(k); err == nil && s.answer == its.last.number {
			return opened(s)
		} // else somebody has asked since, and has not waited
	}
	q := question{k, r.numbers.Add(1), text}
	if err := send(r.socket, q.append(nil)); err != nil {
		its.quietUntil = time.Now().Add(quietFor)
		return nil, errSilent
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		news := r.news[k].listen()
		if s, err := r.view.read(k); err == nil && s.answer == q.number {
			its.last, its.at = q, asked
			return opened(s)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, errSilent // nobody hears it
		case <-r.gone:
			return nil, errSilent
		case <-late.C:
			its.quietUntil = time.Now().Add(quietFor)
			return nil, errSilent
		}
	}
}

// picture gives what the host shows, of now if the agent answers at once.
func (r *remote) picture() (p picture, err error) {
	take := func() error {
		text, err := r.read(ofHost)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &p)
	}
	if err := take(); err == nil && p.age() < freshFor {
		return p, nil
	}
	_, _ = r.ask(context.Background(), ofHost, "", freshPatience)
	return p, take()
}

// age is how long ago the picture was made.
func (p picture) age() time.Duration { return max(sidecar.Now().Sub(time.Unix(0, p.At)), 0) }

// Status implements control.Reading.
func (r *remote) Status() (s control.Status) {
	p, err := r.picture()
	if err == nil {
		err = json.Unmarshal(p.Status, &s)
	}
	if err != nil { // fails closed
		return control.Status{WhyNoLeader: err.Error(), Standstill: err.Error()}
	}
	return aged(s, p.age(), r.view.lease().Sub(sidecar.Now()))
}

// Members implements control.Reading.
func (r *remote) Members() (all []control.Member) {
	if p, err := r.picture(); err == nil {
		_ = json.Unmarshal(p.Members, &all) // the agent has encoded it
	}
	return all
}

// History implements control.Reading. If the agent does not answer, it is what it was when it did last.
func (r *remote) History() (all []control.Leadership) {
	text, err := r.ask(context.Background(), ofHistory, "", answerPatience/2)
	if err != nil {
		text, err = r.read(ofHistory)
	}
	if err == nil {
		_ = json.Unmarshal(text, &all) // the agent has encoded it
	}
	return all
}

// Jobs implements control.Reading.
func (r *remote) Jobs(ctx context.Context, next int) ([]control.Job, error) {
	return askFor[[]control.Job](ctx, r, ofJobs, strconv.Itoa(next))
}

// Explain implements control.Reading.
func (r *remote) Explain(ctx context.Context, member string) (control.Explanation, error) {
	return askFor[control.Explanation](ctx, r, ofExplanation, member)
}

func askFor[T any](ctx context.Context, r *remote, k kind, question string) (answer T, err error) {
	text, err := r.ask(ctx, k, question, answerPatience)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(text, &answer)
}

// Metrics implements control.MetricsBackend. Those of Go's runtime are the agent's.
func (r *remote) Metrics(accept string, goRuntime bool) (text []byte, contentType string, err error) {
	question := ""
	if goRuntime {
		question = withRuntime
	}
	families, err := r.ask(context.Background(), ofMetrics, question, answerPatience)
	if err != nil {
		return nil, "", err
	}
	return metrics.Text(families, accept)
}

// Events implements control.Reading.
func (r *remote) Events(since uint64) ([]control.Event, <-chan struct{}) {
	newer := r.news[ofEvents].listen() // before what there is, so that nothing is missed
	all := r.events()
	at, _ := slices.BinarySearchFunc(all, since+1, func(e control.Event, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	return slices.Clone(all[at:]), newer
}

// events gives all that are on their board. Those that are known are not decoded again.
func (r *remote) events() []control.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view.number(ofEvents) == r.seen {
		return r.kept
	}
	s, err := r.view.read(ofEvents)
	if err != nil {
		return r.kept
	}
	var last uint64
	if n := len(r.kept); n > 0 {
		last = r.kept[n-1].Seq
	}
	fresh, isWhole := newerThan(last, s.text)
	if isWhole {
		r.seen = s.number
	}
	kept := slices.Concat(r.kept, fresh)
	r.kept = kept[max(len(kept)-control.RingSize, 0):]
	return r.kept
}

// newerThan decodes the lines of events after that one, from the last line back; false: a line makes no sense.
func newerThan(last uint64, lines []byte) (fresh []control.Event, isWhole bool) {
	for len(lines) > 0 {
		at := bytes.LastIndexByte(lines, '\n') + 1
		var e control.Event
		if err := json.Unmarshal(lines[at:], &e); err != nil {
			return nil, false
		}
		if e.Seq <= last {
			break
		}
		fresh, lines = append(fresh, e), lines[:max(at-1, 0)]
	}
	slices.Reverse(fresh)
	return fresh, true
}

// manner gives how the port is to be served.
func (r *remote) manner() (m manner, err error) {
	text, err := r.read(ofPort)
	if err != nil {
		return m, errors.Join(errors.New("it is not known how to serve the port"), err)
	}
	return m, json.Unmarshal(text, &m)
}
