package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/test/browser"
	"github.com/bully-agent/bully-agent/internal/test/hostile"
)

var wide = browser.View{Width: 1400, Height: 900, Still: true}

func (f *fakeAgent) say(text string) {
	f.with(func() {
		f.ring.Append(control.Event{Time: time.Now(), Type: "member", Cause: "joined", Text: text})
	})
}

// timesShown is how often the list of events has the text.
func timesShown(tab *browser.Tab, text string) int {
	return strings.Count(tab.Text("#events tbody"), text)
}

// A server that goes away: what was true looks old, and says since when. It returns: what happened meanwhile is there, once.
func TestTheServerGoesAwayAndReturns(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, wide)
	tab.Await(shown)
	f.say("delta came first")
	tab.AwaitText("#events tbody", "delta came first")

	s.stop()
	tab.AwaitText("#link", "stale: no answer for")
	tab.Await(`document.querySelectorAll("main section.stale").length >= 3 && document.querySelector("#members .asof").textContent.startsWith("as of ")`)
	tab.AwaitText("#voice", "Connection lost")
	held := tab.Text("#tenure")
	tab.ExpectAccessible()
	tab.Picture("stale-1400-light")
	f.say("epsilon came while nobody looked")
	if now := tab.Text("#tenure"); now != held {
		t.Errorf("time goes on in what is stale: %q, then %q", held, now)
	}

	s.start()
	tab.AwaitText("#link", "live")
	tab.AwaitText("#events tbody", "epsilon came while nobody looked")
	tab.Await(`document.querySelectorAll("main section.stale").length === 0`)
	for _, text := range []string{"delta came first", "epsilon came while nobody looked"} {
		if n := timesShown(tab, text); n != 1 {
			t.Errorf("%q is shown %d times: expected once", text, n)
		}
	}
	if ids := tab.Resumed(); len(ids) == 0 || ids[len(ids)-1] != "7.8" {
		t.Errorf("the stream resumed after %q: expected 7.8, the last that was shown", ids)
	}
}

// An agent that is started again counts its events from 1 again.
func TestAnotherLifeOfTheAgent(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, wide)
	tab.Await(shown)
	tab.AwaitText("#events tbody", "warning: settings")
	s.stop()
	f.with(func() {
		f.ring, f.status.Self.Incarnation = &control.Ring{}, 8
		f.ring.Append(control.Event{Time: time.Now(), Type: "start", Text: "agent started anew"})
	})
	s.start()
	tab.AwaitText("#events tbody", "agent started anew")
	if !strings.Contains(tab.Text("#events tbody"), "warning: settings") {
		t.Error("what happened in the agent's former life is gone")
	}
}

// Whatever others call themselves is text here: no element, no script, no request.
func TestHostileNamesAreText(t *testing.T) {
	t.Parallel()
	const trap = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
	f := newFake()
	f.with(func() {
		f.members[1].Name, f.members[1].Addr = trap, trap
		f.status.Leader.Name, f.status.Cluster, f.status.WhyNoLeader, f.status.Promise = trap, trap, trap, trap
		for i := range f.history {
			f.history[i].Leader.Name, f.history[i].Ended, f.history[i].Began = trap, trap, trap
		}
		f.jobs[0].Name, f.jobs[0].Schedule, f.jobs[0].Why, f.jobs[1].Open[0].Host = trap, trap, trap, trap
		f.ring.Append(control.Event{Time: time.Now(), Type: "member", Member: trap, Cause: trap, Text: trap})
	})
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, browser.View{Width: 360, Height: 800})
	tab.Await(shown)
	for _, selector := range []string{"h1", "#members tbody", "#history tbody", "#jobs tbody", "#events tbody"} {
		tab.AwaitText(selector, trap)
	}
	if n := browser.Eval[int](tab, `document.querySelectorAll("img, body script").length`); n != 0 {
		t.Errorf("%d elements were made of names", n)
	}
	tab.ExpectOnly(s.address)
	if title := browser.Eval[string](tab, "document.title"); title == "taken" {
		t.Error("a name ran as a script")
	}
	for _, name := range hostile.Names() {
		f.with(func() {
			f.ring.Append(control.Event{Time: time.Now(), Type: "member", Member: name, Text: name})
		})
	}
	f.say("the last of them")
	tab.AwaitText("#events tbody", "the last of them")
	tab.ExpectAccessible()
	tab.Picture("hostile-360-light")
}

func TestKeysAlone(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, browser.View{Width: 1400, Height: 900, Dark: true})
	tab.Await(shown)
	var order []string
	for range 12 {
		tab.Press("Tab")
		at := browser.Eval[string](tab, `(() => {
			const n = document.activeElement, s = getComputedStyle(n);
			if (n === document.body) return "";
			const seen = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
			return (n.id || n.getAttribute("aria-labelledby") || n.className) + (seen ? "" : " without an outline");
		})()`)
		if at == "" {
			break
		}
		order = append(order, at)
	}
	const want = "skip members-title range history-title jobs-title kind hold events-title"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("Tab goes\n%s, expected\n%s", got, want)
	}
	browser.Eval[bool](tab, `(document.querySelector("#hold").focus(), true)`)
	tab.Press(" ")
	tab.Await(`document.querySelector("#hold").getAttribute("aria-pressed") === "true"`)
	f.say("zeta came while it was held")
	tab.AwaitText("#hold", "1 new")
	if timesShown(tab, "zeta came") != 0 {
		t.Error("the list moved though it is held still")
	}
	tab.Press(" ")
	tab.AwaitText("#events tbody", "zeta came while it was held")
}

// A screen reader hears of a change of leader, and of a storm of them a sentence now and then.
func TestTheVoiceIsCalm(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, wide)
	tab.Await(shown)
	browser.Eval[bool](tab, `(window.said = [], new MutationObserver(() => said.push(document.querySelector("#voice").textContent)).observe(document.querySelector("#voice"), {childList: true, characterData: true, subtree: true}), true)`)
	begun := time.Now()
	const changes = 30
	for i := range changes {
		f.with(func() {
			f.status.Epoch.Counter++
			f.status.Leader = &control.Node{Name: []string{"beta", "gamma"}[i%2]}
			f.ring.Append(control.Event{Time: time.Now(), Type: "transition", Leader: f.status.Leader.Name, Epoch: &control.Epoch{Counter: f.status.Epoch.Counter}, Text: "followed a leader"})
		})
		tab.AwaitText("h1", []string{"beta", "gamma"}[i%2])
	}
	tab.AwaitText("#voice", fmt.Sprintf("gamma leads, epoch %d", 42+changes))
	said, most := browser.Eval[[]string](tab, "said"), 2+int(time.Since(begun)/(4*time.Second))
	if len(said) > most || len(said) == 0 {
		t.Errorf("%d sentences in %v, expected 1 to %d: %q", len(said), time.Since(begun), most, said)
	}
	if live := browser.Eval[int](tab, `document.querySelectorAll("[aria-live]:not([aria-live=off]), [role=log], [role=alert]").length`); live != 1 {
		t.Errorf("%d parts speak by themselves: expected 1", live)
	}
}

func TestLittleMotionIsNone(t *testing.T) {
	t.Parallel()
	s := serve(t, newFake())
	b := browser.Open(t)
	for _, still := range []bool{false, true} {
		tab := b.Open(s.address, browser.View{Width: 1400, Height: 900, Still: still})
		tab.Await(shown)
		moves := browser.Eval[string](tab, `getComputedStyle(document.querySelector("#events tbody tr")).animationName`) != "none"
		if moves == still {
			t.Errorf("prefers-reduced-motion %v: moves %v", still, moves)
		}
	}
}

// Checks and maintenance are shown; what a check has printed is not for the network.
func TestChecksAndMaintenance(t *testing.T) {
	t.Parallel()
	f, reason := newFake(), "kernel upgrade"
	f.with(func() {
		f.status.Checks = []control.Check{
			{Name: "nginx", State: "fails", Since: time.Now().Add(-12 * time.Second), Why: "exit 7: connection refused", OnFail: "ineligible"},
			{Name: "disk", State: "passes"}}
		f.status.Maintenance = &control.Maintenance{Reason: reason}
		f.members[0].Draining, f.members[0].Maintenance = true, &reason
	})
	tab := browser.Open(t).Open(serve(t, f).address, wide)
	tab.Await(shown)
	for selector, text := range map[string]string{"#checks": "ineligible", "#notes": "maintenance on this host: kernel upgrade", "#members tbody": "maintenance: kernel upgrade"} {
		tab.AwaitText(selector, text)
	}
	if said := tab.Text("#checks"); strings.Contains(said, "refused") {
		t.Errorf("the page tells what a check printed: %s", said)
	}
	tab.ExpectAccessible()
	tab.Picture("checks-1400-light")
}

// What this host knows of others is said at the top and in their rows, with where more is said; of many hosts the first are named.
func TestNotesOfOtherHosts(t *testing.T) {
	t.Parallel()
	f, reason := newFake(), "kernel upgrade"
	f.with(func() {
		f.members[1].Draining, f.members[1].Maintenance = true, &reason
		f.members[2].Status, f.members[2].Notes = "alive", []string{"settings differ", "round trip too long for the lease"}
	})
	b := browser.Open(t)
	address := serve(t, f).address
	for _, v := range views() {
		tab := b.Open(address, v)
		tab.Await(shown)
		for _, text := range []string{"beta: maintenance: kernel upgrade. bully-agent status there says more.", "gamma: settings differ, round trip too long for the lease."} {
			tab.AwaitText("#notes", text)
		}
		tab.AwaitText("#members tbody", "settings differ")
		if said := tab.Text("#notes"); strings.Contains(said, "alpha") || strings.Contains(said, "omega") {
			t.Errorf("hosts without a note are named: %s", said)
		}
		tab.ExpectAccessible()
		for _, part := range browser.Eval[[]string](tab, beyond) {
			t.Errorf("%v: %s is broader than the page", v, part)
		}
		tab.Picture(fmt.Sprintf("notes-%v", v))
	}
	f.with(func() {
		for i := range 9 {
			f.members = append(f.members, control.Member{ID: fmt.Sprint(i), Name: fmt.Sprintf("extra-%d", i), Status: "alive", Role: "voter", Voter: true, Draining: true})
		}
	})
	tab := b.Open(address, wide)
	tab.AwaitText("#notes", "6 more hosts with notes: see the members.")
	if said := tab.Text("#notes"); strings.Count(said, "cannot lead now") != 3 {
		t.Errorf("of eleven hosts are named:\n%s", said)
	}
	f.with(func() { f.members = f.members[:1] })
	tab.Await(`document.querySelector("#notes").hidden`)
}

// What the leader has is shown, and that it has it no more. What the system has said of it is not for the network.
func TestResources(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.with(func() {
		f.status.Resources = []control.Resource{
			{Name: "vip", What: "address 192.168.1.50/32 on eth0", Here: true, OnFail: "hand-over", Text: "put back once"},
			{Name: "haproxy.service", What: "unit haproxy.service", Here: true, OnFail: "stay"}}
	})
	tab := browser.Open(t).Open(serve(t, f).address, wide)
	tab.Await(shown)
	tab.AwaitText("#resources", "address 192.168.1.50/32 on eth0")
	if said := tab.Text("#resources"); strings.Contains(said, "put back") || strings.Contains(said, "not here") {
		t.Errorf("the page says %s", said)
	}
	f.with(func() {
		f.status.Resources[0].Here, f.status.Ready, f.status.Degraded = false, false, true
	})
	f.ring.Append(control.Event{Type: "resource", Cause: "failed", Time: time.Now(), Text: "resource vip has failed: deleted"})
	for selector, text := range map[string]string{"#resources": "not here", "#events tbody": "resource: failed",
		"#tenure": "degraded: without vip, and nobody else can lead"} {
		tab.AwaitText(selector, text)
	}
	tab.ExpectAccessible()
	tab.Picture("resources-1400-light")
}

// Nobody leads, and the agent says why; a job failed; a hook failed: what needs somebody's eye can be seen.
func TestNobodyLeads(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.with(func() {
		f.status.Leader, f.status.LeaderIsSelf, f.status.LeaseRemainMS, f.status.Role = nil, false, nil, "follower"
		f.status.WhyNoLeader = "1 of 3 voters heard: a majority of 2 is needed"
		f.status.Quorum, f.status.Roster = &control.Quorum{Need: 2, Have: 1}, &control.Roster{Version: 3, Formed: true, Voters: []control.Voter{{Name: "alpha"}, {Name: "beta"}, {Name: "gamma"}}}
		f.status.Isolated, f.status.LastHook.OK, f.status.LastHook.Exit = true, false, 7
		last := &f.history[len(f.history)-1]
		last.To, last.Ended = time.Now().Add(-9*time.Second), "lease-expired"
	})
	s := serve(t, f)
	tab := browser.Open(t).Open(s.address, browser.View{Width: 1400, Height: 900, Dark: true, Still: true})
	tab.Await(shown)
	for selector, text := range map[string]string{"h1": "Nobody leads", "#tenure": "a majority of 2 is needed", "#notes": "exit 7", "#history tbody": "lease-expired"} {
		tab.AwaitText(selector, text)
	}
	tab.ExpectAccessible()
	tab.Picture("nobody-1400-dark")
}
