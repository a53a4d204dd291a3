package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/sim"
)

// alphaFollows is the situation that the documents show.
func alphaFollows() control.Explanation {
	return control.Explanation{Headline: "alpha does not lead: beta does, epoch 42, for 3h",
		Reasons: []control.Reason{{About: "part", OK: true, Text: "voter"}, {About: "roster", OK: true, Text: "roster agreed (3 of 3)"},
			{About: "disk", OK: true, Text: "disk writes"}, {About: "link", Text: "the link of this host is down"}},
		Then: []string{"priority 200 > 100: asks beta to hand over 1s after nothing of this is in the way"}}
}

// What explain prints to a terminal, with NO_COLOR and to a pipe.
func TestExplainGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var pipe bytes.Buffer
	outputs := map[string]*console{"colour": {outColour: true}, "plain": newConsole(nil, &pipe, &pipe)}
	for name, c := range outputs {
		var out bytes.Buffer
		c.out = &out
		if err := c.print(c.explainText(alphaFollows())); err != nil {
			t.Fatal(err)
		}
		golden(t, "explain."+name, out.String())
	}
}

func TestParseIf(t *testing.T) {
	hosts := []control.Host{{Name: "alpha", ID: "0123456789"}, {Name: "beta", ID: "abcdef0123"}}
	for text, want := range map[string]struct {
		hit  int
		blow sim.Blow
	}{"kill alpha": {0, sim.AgentKilled}, "beta dies": {1, sim.HostDies}, "switch off beta": {1, sim.HostDies}, " cut  beta ": {1, sim.HostCut},
		"stop alpha": {0, sim.AgentStops}, "alpha freezes": {0, sim.AgentFreezes}, "alpha is cut": {0, sim.HostCut}, "kill ABCDEF": {1, sim.AgentKilled}} {
		if hit, blow, err := parseIf(text, hosts); err != nil || hit != want.hit || blow != want.blow {
			t.Errorf("%q: host %d, blow %d, %v", text, hit, blow, err)
		}
	}
	for text, want := range map[string]string{
		"kill delta": `--if is "kill delta", and there is no host "delta": expected one of alpha, beta`,
		"bore alpha": `--if is "bore alpha": expected "kill NAME" or "NAME is killed", "switch off NAME" or "NAME dies", "cut NAME" or "NAME is cut", ` +
			`"stop NAME" or "NAME stops", "freeze NAME" or "NAME freezes"`,
		"": `--if is "": expected "kill NAME"`,
	} {
		_, _, err := parseIf(text, hosts)
		if err == nil || !strings.HasPrefix(err.Error(), want) || exitCode(err) != exitUsage || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

func TestIfSentence(t *testing.T) {
	beta, gamma := ifLeader{Name: "beta", Share: 1, P50: 19.2, P99: 430.4}, ifLeader{Name: "gamma", Share: 0.25, P50: 3.14, P99: 6}
	most := beta
	most.Share = 0.75
	for want, a := range map[string]ifAnswer{
		"beta leads, p50 19ms, p99 430ms; quorum stays (2 of 3)": {Leaders: []ifLeader{beta}, Quorum: &ifQuorum{Have: 2, Need: 2, Of: 3}},
		"beta leads in 75 % of the plays, p50 19ms, p99 430ms; gamma leads in 25 % of the plays, p50 3.1ms, p99 6.0ms": {
			Leaders: []ifLeader{most, gamma}},
		"delta leads, p50 15ms, p99 1.05s":                         {Leaders: []ifLeader{{Name: "delta", Share: 1, P50: 15, P99: 1049}}},
		"nobody leads; quorum is lost (1 of 3, 2 needed)":          {Leaders: []ifLeader{{Share: 1}}, Quorum: &ifQuorum{Have: 1, Need: 2, Of: 3}},
		"beta goes on leading; alpha leads on its side of the cut": {Hit: "alpha", HitLeads: 1, Leaders: []ifLeader{{Name: "beta", Share: 1, Stays: true}}},
	} {
		if got := a.sentence(); got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

// A cluster as an agent describes it is played, whatever is missing in it.
func TestPlayIf(t *testing.T) {
	of := control.Cluster{Algorithm: "classic", Preempt: "priority", Heartbeat: int64(50 * time.Millisecond), Lease: int64(400 * time.Millisecond),
		StopBudget: int64(100 * time.Millisecond), PreemptDelay: int64(time.Second), MinAcks: -1, MinMembers: 1, Epoch: 4, SaveMS: 0.4,
		Hosts: []control.Host{{ID: "00000000-0000-4000-8000-000000000001", Name: "alpha", Role: "voter", Priority: 100, Here: true, Bars: []string{"link"}},
			{ID: "00000000-0000-4000-8000-000000000002", Name: "beta", Role: "voter", Priority: 90, Here: true, Leader: true, RTTMS: 0.3},
			{ID: "00000000-0000-4000-8000-000000000003", Name: "gamma", Role: "voter", Priority: 10, Here: true, RTTMS: 0.4}}}
	cluster, err := simulated(of, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if h := cluster.Hosts; h[1].Far != 75*time.Microsecond || h[2].Far != 125*time.Microsecond || !h[0].IsBarred {
		t.Errorf("hosts are %+v", h)
	}
	a, err := playIf(cluster, of, 1, sim.AgentKilled)
	if err != nil || len(a.Leaders) != 1 || a.Leaders[0].Name != "gamma" || a.Leaders[0].P99 <= 0 || a.Plays == 0 {
		t.Errorf("beta is killed, alpha is barred: %+v, %v", a, err)
	}
	of.Preempt = "sometimes"
	if _, err := simulated(of, 0); err == nil {
		t.Error("an unknown policy is played")
	}
}
