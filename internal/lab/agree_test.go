package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
)

// sees is the answer of a node that follows leader in an epoch, or leads itself, and knows three agents.
func sees(name, leader string, counter uint64) view {
	s := control.Status{Alive: 3, Ready: true, LeaderIsSelf: name == leader, Epoch: control.Epoch{Counter: counter, Owner: leader}}
	if leader != "" {
		s.Leader = &control.Node{Name: leader}
	}
	return view{node: &node{name: name}, status: s}
}

func TestAgreement(t *testing.T) {
	silent := view{node: &node{name: "n2"}, err: errors.New("no answer")}
	unready, lonely := sees("n3", "n3", 1), sees("n2", "n3", 1)
	unready.status.Ready, lonely.status.Alive = false, 2
	tests := map[string]struct {
		views  []view
		demand demand
		leader string
		says   string
	}{
		"all agree":           {[]view{sees("n1", "n3", 1), sees("n2", "n3", 1), sees("n3", "n3", 1)}, demand{leader: "n3", best: true, whole: true}, "n3", ""},
		"sticky":              {[]view{sees("n1", "n1", 1), sees("n2", "n1", 1)}, demand{}, "n1", ""},
		"a bully is coming":   {[]view{sees("n1", "n1", 1), sees("n2", "n1", 1)}, demand{best: true}, "n1", "n2 has not taken over yet"},
		"the lowest comes":    {[]view{sees("n1", "n2", 1), sees("n2", "n2", 1)}, demand{best: true, lowest: true}, "n2", "n1 has not taken over yet"},
		"nobody there":        {nil, demand{}, "", "no agent can be reached"},
		"one is silent":       {[]view{sees("n1", "n3", 1), silent, sees("n3", "n3", 1)}, demand{}, "", "n2 does not answer yet"},
		"one knows nobody":    {[]view{sees("n1", "n3", 1), sees("n2", "", 0)}, demand{}, "", "n2 knows no leader yet"},
		"split":               {[]view{sees("n1", "n1", 1), sees("n2", "n2", 1)}, demand{}, "", "n1 follows n1, n2 follows n2"},
		"epochs differ":       {[]view{sees("n1", "n3", 1), sees("n3", "n3", 2)}, demand{}, "", "n1 is in epoch 1, n3 in epoch 2"},
		"hook still runs":     {[]view{sees("n1", "n3", 1), unready}, demand{}, "n3", "n3 has not become leader yet"},
		"a ghost leads":       {[]view{sees("n1", "n3", 1), sees("n2", "n3", 1)}, demand{}, "n3", "n3 is taken for the leader"},
		"another is wanted":   {[]view{sees("n1", "n1", 1)}, demand{leader: "n2"}, "n1", "n1 leads, not n2"},
		"one has met too few": {[]view{sees("n1", "n3", 1), lonely, sees("n3", "n3", 1)}, demand{whole: true}, "n3", "n2 knows 2 of 3 agents"},
	}
	for name, tt := range tests {
		leader, _, err := agreement(tt.views, tt.demand)
		if text := errorText(err); leader != tt.leader || tt.says == "" && err != nil || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %q, %v, want %q, %q", name, leader, err, tt.leader, tt.says)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
