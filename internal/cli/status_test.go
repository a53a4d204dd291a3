package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

func TestStatusText(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := leading()
	s.Self = control.Member{Name: "alpha", Addr: "10.0.0.1:7950", Priority: 200, ID: "id-1"}
	s.Cluster, s.Role, s.State, s.Cause, s.Since = "lab", "leader", "lead", "claimed", now.Add(-90*time.Second)
	s.Epoch.Owner = "id-1"
	s.Mode, s.Promise, s.Members, s.Alive = "available", "one leader in every part", 3, 2
	s.Algorithm, s.Preempt, s.Profile, s.Version, s.Uptime = "classic", "priority", "lan", "1.0.0", 3600
	s.Scheduling = control.Scheduling{Policy: "realtime", Memory: "locked"}
	s.Encryption, s.Notes = "none", []string{"joined nobody yet"}
	s.LastHook = &control.Hook{Event: "become-leader", Epoch: control.Epoch{Counter: 7}, Exit: 1, TookMS: 12, Time: now.Add(-time.Minute)}
	s.Keeper = &control.Keeper{Process: 42}
	plain := &console{}
	const want = `node        alpha, 10.0.0.1:7950, priority 200, cluster lab
role        leader for 1m30s, cause claimed, state lead
leader      alpha, this node
epoch       7, owner id-1
lease       300ms left
ready       yes
mode        available: one leader in every part
members     2 alive of 3 known
last hook   become-leader failed, exit 1 in 12ms, epoch 7, 1m0s ago
keeper      process 42
scheduling  realtime, memory locked
encryption  none
agent       version 1.0.0, up 1h0m0s, algorithm classic, preempt priority, profile lan, id id-1
note        joined nobody yet
`
	if got := plain.statusText(s, now); got != want {
		t.Errorf("got\n%sexpected\n%s", got, want)
	}
	if got := (&console{outColour: true}).statusText(s, now); !strings.Contains(got, red.paint("failed")) {
		t.Errorf("no colour on a terminal that takes it:\n%s", got)
	}
}

func TestStatusTextOfQuorumMode(t *testing.T) {
	s := control.Status{Mode: "quorum", Promise: "at most one leader", Expect: 3, Quorum: &control.Quorum{Need: 2, Have: 1},
		WhyNoLeader: "only 1 of 3 voters answer: no leader here until 2 do",
		Roster: &control.Roster{Version: 17, Formed: true, Voters: []control.Voter{
			{ID: "0123456789abcdef"}, {ID: "1", Name: "alpha", Alive: true, Self: true}, {ID: "2", Name: "beta"}}}}
	contains := func(s control.Status, lines ...string) {
		t.Helper()
		text := (&console{}).statusText(s, time.Now())
		for _, want := range lines {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("expected %q in\n%s", want, text)
			}
		}
	}
	contains(s, "leader      none known: only 1 of 3 voters answer: no leader here until 2 do",
		"mode        quorum: at most one leader",
		"voters      3 expected; roster as of epoch 1: 01234567 (not here), alpha, beta (not here)",
		"quorum      1 answer, 2 needed")
	s.Roster.Formed = false
	contains(s, "voters      3 expected; roster as of epoch 1, not formed yet: 01234567 (not here), alpha, beta (not here)")
	s.Roster = nil
	contains(s, "voters      3 expected, no roster yet")
	coloured := (&console{outColour: true}).statusText(s, time.Now())
	if !strings.Contains(coloured, yellow.paint("none known")+": only 1") {
		t.Errorf("no colour:\n%s", coloured)
	}
}

func TestStatusTextOfAnAgentThatKnowsNothing(t *testing.T) {
	text := (&console{}).statusText(control.Status{}, time.Now())
	for _, want := range []string{"leader      none known\n", "epoch       none known\n", "lease       none: ", "last hook   none yet\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("expected %q in\n%s", want, text)
		}
	}
}

func TestMembersText(t *testing.T) {
	silence := int64(9310)
	members := []control.Member{
		{Name: "alpha", Addr: "10.0.0.1:7950", Priority: 100, Role: "voter", Status: "alive", Self: true, Leader: true, ID: "0123456789abcdef"},
		{Name: "b", Addr: "10.0.0.22:7950", Priority: 5, Role: "observer", Status: "dead", RTTMS: 0.456, ID: "fedcba9876543210", HeardMS: &silence},
		{Name: "c", Addr: "10.0.0.3:7950", Priority: 5, Role: "voter", Status: "alive", ID: "fedcba9876543211"},
	}
	const want = `as alpha sees it
NAME   ADDRESS         PRIORITY  ROLE      RTT     LAST HEARD  ID        STATUS
alpha  10.0.0.1:7950   100       voter     -       -           01234567  alive, leader, this node
b      10.0.0.22:7950  5         observer  0.46ms  9.3s ago    fedcba98  dead
c      10.0.0.3:7950   5         voter     -       never       fedcba98  alive
`
	if got := (&console{}).membersText(members); got != want {
		t.Errorf("got\n%sexpected\n%s", got, want)
	}
	coloured := (&console{outColour: true}).membersText(members)
	if stripped := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "").Replace(coloured); stripped != want {
		t.Errorf("colours move the columns:\n%s", coloured)
	}
}

func TestHistoryAndEventText(t *testing.T) {
	abroad(t)
	from := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	got := historyText("beta", []control.Leadership{
		{Epoch: control.Epoch{Counter: 1}, Leader: control.Node{Name: "alpha"}, From: from, To: from.Add(90 * time.Second), Began: "boot", Ended: "handed-over"},
		{Epoch: control.Epoch{Counter: 2}, Leader: control.Node{Name: "beta"}, From: from.Add(90 * time.Second), Began: "handed-over"},
	}, from.Add(91*time.Second))
	const want = `as beta saw it
EPOCH  LEADER  FROM                           TO                             LASTED  BEGAN        ENDED
1      alpha   2026-11-21 12:00:00.000 +0200  2026-11-21 12:01:30.000 +0200  1m30s   boot         handed-over
2      beta    2026-11-21 12:01:30.000 +0200  still leads                    1s      handed-over  -
`
	if got != want {
		t.Errorf("got\n%sexpected\n%s", got, want)
	}
	event := control.Event{Time: from, Type: "transition", Role: "leader", Leader: "alpha", Cause: "claimed", Text: "became leader",
		Epoch: &control.Epoch{Counter: 7}}
	if got := eventText(event); got != "2026-11-21 12:00:00.000 +0200  transition  became leader  role=leader leader=alpha epoch=7 cause=claimed\n" {
		t.Errorf("event: got %q", got)
	}
}

func TestStatusTextOfATroubledLeader(t *testing.T) {
	s := leading()
	s.Ready = false
	s.Keeper = &control.Keeper{Error: "no room for processes"}
	s.LastHook = &control.Hook{Event: "lose-leadership", OK: true, TookMS: 12, Attempts: 2, TakenOver: true, Time: time.Now()}
	for _, tt := range []struct {
		change func()
		want   string
	}{
		{func() {}, "ready       no: the become-leader hook has not succeeded\n"},
		{func() { s.Degraded = true }, "ready       no, degraded: the become-leader hook failed, and nobody else can lead\n"},
		{func() {
			s.Resources = []control.Resource{{Name: "vip", What: "address 192.0.2.50/32 on eth0", OnFail: "hand-over", Text: "has failed: deleted"},
				{Name: "worker", What: "command worker", OnFail: "stay"}}
		}, "ready       no, degraded: without vip, and nobody else can lead\n"},
		{func() {}, "resource    vip, address 192.0.2.50/32 on eth0: not here, has failed: deleted\n"},
		{func() { s.Degraded = false }, "ready       no: without vip\n"},
		{func() { s.LeaderIsSelf = false }, "lease       300ms left\nmode"}, // readiness is the leader's alone
		{func() {}, "keeper      none: no room for processes\n"},
		{func() { s.Keeper.Error = "" }, "keeper      starting\n"},
		{func() {}, "last hook   lose-leadership succeeded while the agent was dead or silent at attempt 2 in 12ms"},
		{func() {
			s.LastHook = &control.Hook{Event: "lose-leadership", Exit: -1, Error: "timed out after 67ms", TookMS: 68, Time: time.Now()}
		}, "last hook   lose-leadership failed, timed out after 67ms, in 68ms"},
	} {
		tt.change()
		if text := (&console{}).statusText(s, time.Now()); !strings.Contains(text, tt.want) {
			t.Errorf("expected %q in\n%s", tt.want, text)
		}
	}
}
