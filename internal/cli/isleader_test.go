package cli

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

func leading() control.Status {
	remain := int64(300)
	return control.Status{Self: control.Member{Name: "alpha"}, Leader: &control.Node{Name: "alpha"}, LeaderIsSelf: true, Ready: true,
		LeaseRemainMS: &remain, Epoch: control.Epoch{Counter: 7}}
}

// is-leader fails closed: it takes all of leading, ready and a lease that is
// still valid when the answer is read.
func TestOnlyAReadyLeaderWithALeaseIsTheLeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*control.Status)
		age    time.Duration
		want   string
	}{
		{"leads", func(*control.Status) {}, time.Millisecond, ""},
		{"another leads", func(s *control.Status) { s.LeaderIsSelf, s.Leader = false, &control.Node{Name: "beta"} }, 0, "beta does"},
		{"nobody leads", func(s *control.Status) { s.LeaderIsSelf, s.Leader = false, nil }, 0, "no leader is known"},
		{"hook still runs", func(s *control.Status) { s.Ready = false }, 0, "it leads, but its become-leader hook has not succeeded"},
		{"no lease", func(s *control.Status) { s.LeaseRemainMS = nil }, 0, "it leads no more: its lease has ended"},
		{"lease just over", func(s *control.Status) { *s.LeaseRemainMS = 0 }, 0, "it leads no more: its lease has ended"},
		{"answer read too late", func(*control.Status) {}, 300 * time.Millisecond, "it leads no more: its lease has ended"},
		{"zero answer", func(s *control.Status) { *s = control.Status{} }, 0, "no leader is known"},
	} {
		s := leading()
		c.change(&s)
		if got := s.WhyNotLeading(c.age); got != c.want {
			t.Errorf("%s: got %q, expected %q", c.name, got, c.want)
		}
	}
}

func TestGoals(t *testing.T) {
	quorum := leading()
	quorum.Quorum = &control.Quorum{Need: 2, Have: 1}
	quorum.Alive = 1
	for _, c := range []struct {
		goal   string
		status control.Status
		want   string
	}{
		{"leader", leading(), ""},
		{"leader", control.Status{}, "no leader is known"},
		{"me", leading(), ""},
		{"me", control.Status{}, "no leader is known"},
		{"members=1", quorum, ""},
		{"members=2", quorum, "1 alive"},
		{"quorum", quorum, "1 of the 2 voters needed answer"},
	} {
		g, err := parseGoal(c.goal)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.missing(c.status, 0); got != c.want || err != nil {
			t.Errorf("%s: missing %q (%v), expected %q", c.goal, got, err, c.want)
		}
	}
	g, _ := parseGoal("quorum")
	if _, err := g.missing(leading(), 0); exitCode(err) != exitRefused {
		t.Errorf("quorum of an agent without one: %v", err)
	}
	for _, wrong := range []string{"", "pizza", "members", "members=", "members=0", "members=x", "leader=1"} {
		if _, err := parseGoal(wrong); exitCode(err) != exitUsage {
			t.Errorf("--for %q: %v", wrong, err)
		}
	}
}
