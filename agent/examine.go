package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/membership"
)

// How long this host tries for itself.
const (
	dialing   = 2 * time.Second
	answering = askingTime + trying + answeringTime

	syncs     = 40 // arbitrary: the slowest two are above the p95
	syncing   = 4 * time.Second
	turns     = 40
	turnPause = 10 * time.Millisecond

	// maxAsked bounds the others that are asked, the first by id: in a large group more would tell no more.
	maxAsked = 16
	// asked at once, since they measure what passes between them and us.
	askedAtOnce = 8
	// maxTries bounds how often one is asked that has no place for a question now: enough for some people who look at the
	// same time, or at the hosts of one address one after the other.
	maxTries = 6
)

// errExamined is returned to the second of two who ask at once: one would be measured with the other.
var errExamined = &control.APIError{Status: http.StatusConflict, Message: "this host is looked at already", Hint: "try again in some seconds",
	Code: "busy"}

// Examine implements control.DoctorBackend. It takes some seconds, sends pings and questions to the others, and writes a
// small file beside the state.
func (a *agent) Examine(ctx context.Context) (control.Examination, error) {
	if !a.examined.TryLock() {
		return control.Examination{}, errExamined
	}
	defer a.examined.Unlock()
	shown := a.shown.Load()
	self := shown.members[0]
	out := control.Examination{Self: self, Version: a.cfg.Version, Proven: a.hasKey(), CanAsk: a.port != nil, Profile: a.cfg.Profile,
		StopBudgetMS: ms(a.cfg.Election.StopBudget), HeartbeatMS: ms(a.cfg.Election.Heartbeat), MTU: mtuOf(shown.addr),
		StateDir: a.home.dir, Access: a.checkHome()}
	out.Link, out.LinkRemedy = shown.trouble, shown.remedy
	out.Addresses, out.Devices = a.leads(), a.devices()
	if a.cfg.Scheduling != nil {
		out.Scheduling = a.cfg.Scheduling()
	}
	out.Reader = a.reader()
	j := a.members().JoinState()
	out.Seeds, out.JoinError, out.Failing = j.Seeds, j.LastError, failingSeeds(j)
	if out.JoinError == "" && len(out.Failing) > 0 {
		out.JoinError = out.Failing[0]
	}
	out.Hosts = a.controlHosts()
	ring := a.keys.Load()
	out.Keys, out.OtherKeys, out.KeyRemedy = hexIDs(ring.ring.IDs()), a.strangers(), key.OneForAll(ring.file)
	var group sync.WaitGroup
	group.Go(func() { out.Peers = a.askOthers(ctx) })
	group.Go(func() { out.SyncMS, out.SyncError = a.timeSyncs() })
	group.Go(func() { out.TurnMS = a.timeTurns(ctx) })
	group.Go(func() { out.Refusal, out.Unseen, out.RefusalError = a.refusal() })
	group.Wait()
	known, err := ask(ctx, a, a.settingsElsewhere)
	out.Odd, out.OtherJobs, out.OtherList, out.Waiting, out.Far = known.Odd, known.OtherJobs, known.OtherList, known.Waiting, known.Far
	if ctx.Err() != nil {
		return control.Examination{}, errGone
	}
	if err != nil { // then all else is worth knowing
		_, out.Standstill = a.standstill()
	}
	return out, nil
}

// settingsElsewhere fills the part of an Examination that belongs to the loop.
func (a *agent) settingsElsewhere() (out control.Examination, _ error) {
	for _, odd := range a.view.oddlyConfigured() {
		out.Odd = append(out.Odd, control.Odd{Name: a.view.label(odd.ID), Differ: a.differences(odd)})
	}
	out.OtherJobs, out.Waiting = a.view.otherTables(), slices.Clone(a.waiting)
	out.OtherList = a.view.labels(a.otherLists())
	out.Far = a.far(a.seat.node.Status())
	return out, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// checkHome looks at the state directory as the start does.
func (a *agent) checkHome() string {
	if err := durable.CheckDir(a.home.dir); err != nil {
		return err.Error()
	}
	return ""
}

// timeSyncs gives the 95th percentile of what a write takes to be on disk.
func (a *agent) timeSyncs() (p95 float64, problem string) {
	type timing struct {
		took []time.Duration
		err  error
	}
	t, hangs := unlessItHangs(&a.syncs, "a write", func() (t timing) {
		t.took, t.err = durable.TimeSyncs(a.home.dir, syncs, syncing)
		return t
	})
	switch {
	case hangs != "":
		return 0, hangs
	case t.err != nil:
		return 0, t.err.Error()
	}
	return ms(percentile(t.took, 95)), ""
}

// refusal says why the next start would be refused, and whether this process sees all that a start reads.
func (a *agent) refusal() (why string, unseen bool, problem string) {
	if a.cfg.Refusal == nil {
		return "", false, ""
	}
	type reading struct {
		isWhole bool
		refused error
	}
	r, hangs := unlessItHangs(&a.refusals, "reading what a start reads", func() (r reading) {
		r.isWhole, r.refused = a.cfg.Refusal()
		return r
	})
	switch {
	case hangs != "":
		return "", false, hangs
	case r.refused != nil:
		return r.refused.Error(), !r.isWhole, ""
	}
	return "", !r.isWhole, ""
}

// unlessItHangs looks at files, for twice syncing at most. What hangs is left to end by itself, and nothing looks there again before.
func unlessItHangs[T any](one *sync.Mutex, what string, look func() T) (found T, hangs string) {
	if !one.TryLock() {
		return found, what + " of the doctor before has not ended"
	}
	done := make(chan T, 1)
	go func() {
		got := look()
		one.Unlock()
		done <- got
	}()
	select {
	case found = <-done:
		return found, ""
	case <-time.After(2 * syncing):
		return found, fmt.Sprintf("%s has not ended after %v", what, 2*syncing)
	}
}

// timeTurns gives the same of what the loop takes to come to something new.
func (a *agent) timeTurns(ctx context.Context) float64 {
	var took []time.Duration
	for range turns {
		begun := a.cfg.Now()
		if _, err := ask(ctx, a, func() (none struct{}, _ error) { return none, nil }); err != nil {
			return 0
		}
		took = append(took, a.cfg.Now().Sub(begun))
		time.Sleep(turnPause)
	}
	return ms(percentile(took, 95))
}

// percentile of at least one duration; it sorts them.
func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)]
}

// askOthers asks every member of the list that has not left, dead ones as well: that it seems dead may be what is wrong here.
func (a *agent) askOthers(ctx context.Context) []control.Sight {
	var others []membership.Member
	for _, m := range a.members().Known() {
		isListed := slices.ContainsFunc(a.shown.Load().members, func(s control.Member) bool { return s.ID == m.ID.String() && !s.Self })
		if m.Status != membership.Left && isListed {
			others = append(others, m)
		}
	}
	others = others[:min(len(others), maxAsked)]
	sights, places := make([]control.Sight, len(others)), make(chan struct{}, askedAtOnce)
	var group sync.WaitGroup
	for i, m := range others {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			sights[i] = a.ask(ctx, m)
		})
	}
	group.Wait()
	return sights
}

// ask asks one, and looks at what passes meanwhile.
func (a *agent) ask(ctx context.Context, m membership.Member) control.Sight {
	s := control.Sight{ID: m.ID.String(), Name: m.Name, Addr: m.Addr.String(), Status: m.Status.String(), WireMax: int(m.WireMax)}
	if a.port == nil {
		s.Trouble = "this LAN carries no questions"
		return s
	}
	seen, stop := a.port.Look(m.Addr.Addr())
	defer stop()
	var group sync.WaitGroup
	group.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, trying)
		defer cancel()
		s.Pinged = a.members().Reaches(ctx, m.Addr)
	})
	begun := a.wall()
	said, err := a.askOnce(ctx, m, true)
	for try := 1; errors.Is(err, errClosed) && try < maxTries && a.waitsForTurn(ctx); try++ {
		begun = a.wall()
		said, err = a.askOnce(ctx, m, true)
	}
	if errors.Is(err, errNoAnswer) { // it took the stream, and what is long may have been lost
		time.Sleep(answerPause + 100*time.Millisecond)
		begun = a.wall()
		if said, err = a.askOnce(ctx, m, false); err == nil {
			s.LosesLarge = true
		}
	}
	ended := a.wall()
	group.Wait()
	s.Arrived = seen()
	if err != nil {
		s.Trouble = troubleOf(err)
		return s
	}
	asked, answered := time.Unix(0, said.Asked), time.Unix(0, said.Answered)
	s.OffsetMS = ms((asked.Sub(begun) + answered.Sub(ended)) / 2)
	s.Version, s.Source, s.Knows, s.PingsUs, s.Heard, s.Knock, s.MTU = said.Version, said.Source, said.Knows, said.Pinged, said.Datagrams, said.Knock, said.MTU
	s.Addresses = said.Addresses
	return s
}

// waitsForTurn waits as long as whoever has no place for a question now, since others ask too, may have none; false: nobody
// wants to know any more. Chance parts those that were turned away together.
func (a *agent) waitsForTurn(ctx context.Context) bool {
	select {
	case <-time.After(answerPause + rand.N(answerPause/2)):
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	errNoAnswer = errors.New("it takes the stream, and does not answer")
	errClosed   = errors.New("it takes the stream, and closes it without an answer")
)

// askOnce asks with a long question for a long answer, or with short ones.
func (a *agent) askOnce(ctx context.Context, m membership.Member, large bool) (said answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	conn, err := a.lan.DialQuestion(ctx, session.Meant{ID: m.ID, Nonce: m.Nonce, Addr: m.Addr})
	if err != nil {
		return said, err
	}
	defer conn.Close()
	wait := answering
	if large {
		wait = trying + time.Second // what arrives is answered by then
	}
	_ = conn.SetDeadline(a.deadline(wait))
	least := 0
	if large {
		least = largeWords
	}
	q := question{ID: a.view.self.ID.String(), Addr: a.shown.Load().members[0].Addr, Large: large}
	if err = say(conn, q, least); err == nil {
		err = listen(conn, &said)
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return said, errNoAnswer
	}
	if err != nil && !errors.Is(err, errWords) {
		return said, errClosed
	}
	if err != nil {
		return said, err
	}
	return said, said.check(m.ID)
}

func troubleOf(err error) string {
	if errors.Is(err, errNoAnswer) || errors.Is(err, errClosed) || errors.Is(err, errWords) {
		return err.Error()
	}
	return whyNot(err)
}

// canAsk begins to answer, where the LAN can.
func (a *agent) canAsk() {
	if port, ok := a.below.(asking); ok {
		a.port = port
	}
}
