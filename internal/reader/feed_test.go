package reader

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// shown is what the network is told of a value.
func shown(t *testing.T, v any) string {
	t.Helper()
	text, err := control.PublicJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func again[T any](t *testing.T, v T) {
	t.Helper()
	first := shown(t, v)
	var passed T
	if err := json.Unmarshal([]byte(first), &passed); err != nil {
		t.Fatal(err)
	}
	if second := shown(t, passed); second != first {
		t.Errorf("%T is not what it was:\n%s\n%s", v, first, second)
	}
}

// What is passed on looks the same to the network, to the byte, whether it has all or nothing in it.
func TestWhatIsPassedOnLooksTheSame(t *testing.T) {
	again(t, full[control.Status]())
	again(t, full[[]control.Member]())
	again(t, full[[]control.Leadership]())
	again(t, full[[]control.Job]())
	again(t, full[control.Explanation]())
	for _, kind := range []string{"transition", "member", "hook", "keys", "warning", "another"} {
		e := full[control.Event]()
		e.Type = kind
		again(t, e)
	}
	again(t, control.Status{})
	again(t, []control.Member{{}})
	again(t, []control.Job{{}})
	again(t, control.Explanation{})
	again(t, control.Event{})
}

func rich() *fakeAgent {
	f := &fakeAgent{status: full[control.Status](), members: full[[]control.Member](), history: full[[]control.Leadership](), jobs: full[[]control.Job](),
		why: full[control.Explanation]()}
	f.status.LeaderIsSelf, f.status.Standstill = false, ""
	for range 3 {
		f.Append(full[control.Event]())
	}
	return f
}

// answerOf asks as the network does.
func answerOf(r control.Reading, path string) (status int, body string) {
	w := httptest.NewRecorder()
	control.Public(r, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// A reader answers every question as the agent itself would, but for the time that has passed.
func TestAReaderAnswersAsItsAgentWould(t *testing.T) {
	agent := rich()
	r := feed(t, httpd.Config{}, agent).remote(t)
	for _, path := range []string{"/v1/members", "/v1/leader", "/v1/history", "/v1/events", "/v1/events?since=1", "/v1/jobs", "/v1/jobs?next=3", "/v1/jobs?next=11", "/v1/explain",
		"/v1/explain?member=beta", "/leader", "/follower", "/health", "/readyz", "/livez", "/", "/v1/hooks"} {
		status, body := answerOf(agent, path)
		if gotStatus, got := answerOf(r, path); gotStatus != status || got != body {
			t.Errorf("%s: %d %s\nwant %d %s", path, gotStatus, got, status, body)
		}
	}
	passing := func(text string) (m map[string]any) {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"uptime_seconds", "loop_age_ms", "hold_down_ms"} {
			m[name] = "now"
		}
		return m
	}
	_, want := answerOf(agent, "/v1/status")
	_, got := answerOf(r, "/v1/status")
	if diff := cmp.Diff(passing(want), passing(got)); diff != "" {
		t.Error(diff)
	}
	agent.set(func(f *fakeAgent) {
		f.err = &control.APIError{Status: http.StatusConflict, Message: "no such member", Hint: "see members", Code: "unknown_member"}
	})
	for _, path := range []string{"/v1/explain?member=nobody", "/v1/jobs"} {
		status, body := answerOf(agent, path)
		if gotStatus, got := answerOf(r, path); gotStatus != status || got != body {
			t.Errorf("%s: %d %s\nwant %d %s", path, gotStatus, got, status, body)
		}
	}
}

// However many ask the same at a time, the agent is asked once in a while.
func TestTheSameQuestionIsAskedOnce(t *testing.T) {
	agent := rich()
	r := feed(t, httpd.Config{}, agent).remote(t)
	began := time.Now()
	for range 500 {
		if status, body := answerOf(r, "/v1/leader"); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	if asked, most := r.numbers.Load()-1000, 2*uint64(time.Since(began)/freshFor+2); asked > most { // for the host, and for its history
		t.Errorf("asked %d times in %v, want %d at most", asked, time.Since(began), most)
	}
}

// A leadership that has ended is denied at once, whatever the agent has shown; one that is renewed is not, though it shows nothing.
func TestLeaseIsOfThisMoment(t *testing.T) {
	agent := rich()
	agent.status.LeaderIsSelf, agent.status.Ready = true, true
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	f.Lease(sidecar.Now().Add(time.Hour))
	until(t, "a leader", func() bool { return r.Status().WhyNotLeading(0) == "" })
	f.Lease(sidecar.Now().Add(-time.Millisecond))
	if why := r.Status().WhyNotLeading(0); why == "" {
		t.Error("it leads after its lease")
	}
	f.Lease(sidecar.Now().Add(time.Hour))
	if why := r.Status().WhyNotLeading(0); why != "" {
		t.Errorf("renewed: %s", why)
	}
	f.Lease(time.Time{})
	if why := r.Status().WhyNotLeading(0); why == "" {
		t.Error("it leads without a lease")
	}
}

// A disk that hangs holds up what needs it, and neither who leads nor what has happened.
func TestADiskThatHangsHoldsUpNothingElse(t *testing.T) {
	agent := rich()
	agent.disk = make(chan struct{})
	agent.status.LeaderIsSelf, agent.status.Ready = true, true
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	f.Lease(sidecar.Now().Add(time.Hour))
	ctx, cancel := context.WithCancel(context.Background())
	hangs := make(chan struct{})
	go func() { defer close(hangs); _, _ = r.ask(ctx, ofMetrics, "", bound) }()
	defer func() { cancel(); <-hangs; close(agent.disk) }()
	for i := range 3 {
		f.Changed()
		agent.Append(control.Event{Type: "link", Text: "up"})
		until(t, "the event", func() bool {
			all, _ := r.Events(0)
			return len(all) == 4+i
		})
		if why := r.Status().WhyNotLeading(0); why != "" {
			t.Error(why)
		}
	}
}

// Whoever has gone does not wait for the question before.
func TestWhoHasGoneWaitsForNoTurn(t *testing.T) {
	agent := rich()
	agent.disk = make(chan struct{})
	r := feed(t, httpd.Config{}, agent).remote(t)
	hangs := make(chan struct{})
	go func() { defer close(hangs); _, _ = r.ask(t.Context(), ofMetrics, "", bound) }()
	defer func() { close(agent.disk); <-hangs }()
	until(t, "the question before", func() bool { return len(r.asked[ofMetrics].turn) == 1 })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.ask(ctx, ofMetrics, withRuntime, bound); err != errSilent {
		t.Error(err)
	}
	select {
	case <-hangs:
		t.Error("it has waited for the question before")
	default:
	}
}

// Whoever follows events too slowly finds a gap in their numbers, and the agent has not waited.
func TestSlowFollowersFindAGap(t *testing.T) {
	agent := &fakeAgent{}
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	for range 3*control.RingSize + 7 {
		agent.Append(control.Event{Type: "link", Text: "up"})
	}
	until(t, "the last event", func() bool {
		all, _ := r.Events(1)
		return len(all) == control.RingSize && all[0].Seq == 2*control.RingSize+8 && all[len(all)-1].Seq == 3*control.RingSize+7
	})
	all, newer := r.Events(3*control.RingSize + 7)
	if len(all) != 0 {
		t.Errorf("%d after the last", len(all))
	}
	agent.Append(control.Event{Type: "link", Text: "down"})
	select {
	case <-newer:
	case <-time.After(bound):
		t.Fatal("nobody is woken")
	}
}

// Events that are too long for their board cost the oldest, and no later one.
func TestLongEventsCostTheOldest(t *testing.T) {
	agent := &fakeAgent{}
	r := feed(t, httpd.Config{}, agent).remote(t)
	for range 12 {
		agent.Append(control.Event{Type: "link", Text: strings.Repeat("x", mostText/10)})
	}
	agent.Append(control.Event{Type: "link", Text: strings.Repeat("x", mostText)}) // alone too long
	agent.Append(control.Event{Type: "link", Text: "the last"})
	until(t, "the last event", func() bool {
		all, _ := r.Events(0)
		return len(all) > 0 && all[len(all)-1].Text == "the last"
	})
}

// The last that the agent has to say is there when it ends, and a reader hears of the end.
func TestLastWords(t *testing.T) {
	agent := &fakeAgent{}
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	agent.Append(control.Event{Type: "stop", Text: "agent stopped"})
	f.stop()
	f.socket.Close()
	<-r.gone
	if all, _ := r.Events(0); len(all) != 1 || all[0].Text != "agent stopped" {
		t.Errorf("%+v", all)
	}
}

// socketHas is more datagrams than have room in a socket as the kernel makes it.
const socketHas = 1000

// However much a reader asks, and whatever, the agent does so much and no more.
func TestAReaderThatAsksTooMuch(t *testing.T) {
	agent := rich()
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	began, sent := time.Now(), 0
	for sent < 5*socketHas && time.Since(began) < time.Second { // an agent that read all would have had the first long before
		for _, datagram := range [][]byte{question{kind: ofHost, number: 7}.append(nil), {byte(kinds), 0, 0}, make([]byte, 2*mostQuestion)} {
			if send(r.socket, datagram) == nil {
				sent++
			}
		}
		runtime.Gosched()
	}
	took := time.Since(began)
	if read, most := sent-socketHas, int(kinds)*(atOnce+int((took.Seconds()+2)*perSecond)); read > most {
		t.Errorf("the agent has read %d questions in %v, want %d at most", read, took, most)
	}
	agent.set(func(a *fakeAgent) {
		if most := atOnce + int((took.Seconds()+2)*perSecond); a.asked > most {
			t.Errorf("asked %d times in %v, want %d at most", a.asked, took, most)
		}
	})
	if s := r.Status(); s.Role != agent.status.Role {
		t.Errorf("it answers no more: %+v", s)
	}
}

// Whoever asks what somebody has just asked gets the answer to that, also if another has asked something else since, and has
// not waited for it.
func TestAnAnswerIsToItsQuestion(t *testing.T) {
	r := feed(t, httpd.Config{}, rich()).remote(t)
	if e, err := r.Explain(t.Context(), "alpha"); err != nil || !strings.HasSuffix(e.Headline, "alpha") {
		t.Fatalf("%+v, %v", e, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = r.Explain(ctx, "beta")
	until(t, "the answer that nobody waits for", func() bool {
		s, err := r.view.read(ofExplanation)
		return err == nil && s.answer == r.numbers.Load()
	})
	r.asked[ofExplanation].at = time.Now() // it was a moment ago, on a busy machine too
	if e, err := r.Explain(t.Context(), "alpha"); err != nil || !strings.HasSuffix(e.Headline, "alpha") {
		t.Errorf("%+v, %v", e, err)
	}
}

// An agent that answers nothing keeps nobody waiting for long: what it showed last is given, and said to be old.
func TestAnAgentThatIsFrozen(t *testing.T) {
	f, err := Open(httpd.Config{Listen: anyPort})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &writing{Feed: f, source: rich(), log: (&lines{}).logger("")}
	r := fed{Feed: f, stop: func() {}}.silent(t)
	for k, answer := range map[kind]answer{ofHost: w.host, ofHistory: w.history} {
		w.put(t.Context(), k, question{}, answer)
	}
	began := time.Now()
	for range 20 {
		if s := r.Status(); s.Role == "" {
			t.Errorf("%+v", s)
		}
	}
	if took := time.Since(began); took > 200*freshPatience { // generous: each has its patience
		t.Errorf("20 answers took %v", took)
	}
	if _, body := answerOf(r, "/v1/members"); body == "[]\n" {
		t.Error("it knows no members")
	}
	r.asked[ofJobs].quietUntil = time.Now().Add(time.Hour)
	if status, body := answerOf(r, "/v1/jobs"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the agent does not answer its reader") {
		t.Errorf("%d %s", status, body)
	}
}

// Boards on which nothing was ever written lead nobody astray.
func TestEmptyBoards(t *testing.T) {
	f, err := Open(httpd.Config{Listen: anyPort})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := fed{Feed: f, stop: func() {}}.silent(t)
	if status, _ := answerOf(r, "/leader"); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
	if all, _ := r.Events(0); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// What is not for the network is in no board: a reader that somebody has broken into finds none of it in its memory.
func TestBoardsHaveNothingButWhatTheNetworkMaySee(t *testing.T) {
	const secret = "/root/secret"
	agent := rich()
	agent.status.Notes, agent.status.Encryption, agent.status.LastHook.Error = []string{secret}, secret, secret
	agent.status.Waiting = []control.Waiting{{Setting: secret, Now: secret, Then: secret}}
	agent.status.Keeper.Error, agent.status.Reader.Error, agent.status.Scheduling.Why = secret, secret, secret
	agent.status.Self.LacksKeys, agent.members[0].LacksKeys = []string{secret}, []string{secret}
	agent.jobs[0].Last.Err, agent.jobs[0].Open[0].Err, agent.why.TakesBack = secret, secret, secret
	agent.Append(control.Event{Type: "hook", Text: "it failed: " + secret})
	agent.Append(control.Event{Type: "warning", Cause: "disk-failed", Text: secret})
	f := feed(t, httpd.Config{}, agent)
	r := f.remote(t)
	for _, path := range []string{"/v1/status", "/v1/members", "/v1/history", "/v1/jobs", "/v1/explain", "/v1/events", "/v1/leader"} {
		if status, body := answerOf(r, path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	f.stop()
	for k := range kinds {
		for slot := range uint64(2) {
			text := make([]byte, 64<<10)
			if _, err := f.door.boards.ReadAt(text, slotAt(k, slot)); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("board %d has what the network may not see: %s", k, text)
			}
		}
	}
}
