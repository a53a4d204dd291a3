package reader

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

func leading() control.Status {
	remain := int64(400)
	return control.Status{Role: "leader", LeaderIsSelf: true, Ready: true, Leader: &control.Node{Name: "alpha"}, LeaseRemainMS: &remain, HoldDownMS: 700, Uptime: 5}
}

func following() control.Status {
	return control.Status{Role: "follower", Ready: true, Leader: &control.Node{Name: "beta"}, LoopAgeMS: 200}
}

// A picture that is not of this moment says no more than what is true now: a lease that has ended makes no leader, whatever
// the agent said, and one that was renewed since keeps one; an agent that shows nothing any more stands still.
func TestAged(t *testing.T) {
	for name, tt := range map[string]struct {
		s         control.Status
		by, lease time.Duration
		leads     bool
		ready     bool
		leader    string
		still     string
	}{
		"of now":                  {leading(), 0, 300 * time.Millisecond, true, true, "alpha", ""},
		"renewed since":           {leading(), time.Second, 300 * time.Millisecond, true, true, "alpha", ""},
		"lease has ended":         {leading(), 0, 0, false, false, "", ""},
		"follower":                {following(), time.Second, -time.Hour, false, true, "beta", ""},
		"frozen follower":         {following(), 4 * time.Second, -time.Hour, false, false, "", "the agent has stood still for 4s"},
		"frozen leader":           {leading(), 4 * time.Second, -3 * time.Second, false, false, "", "the agent has stood still for 4s"},
		"frozen, alone and leads": {leading(), 4 * time.Second, time.Hour, true, false, "alpha", "the agent has stood still for 4s"},
	} {
		s := aged(tt.s, tt.by, tt.lease)
		leader := ""
		if s.Leader != nil {
			leader = s.Leader.Name
		}
		if s.LeaderIsSelf != tt.leads || s.Ready != tt.ready || leader != tt.leader || s.Standstill != tt.still {
			t.Errorf("%s: leads %v, ready %v, leader %q, %q", name, s.LeaderIsSelf, s.Ready, leader, s.Standstill)
		}
		if (s.LeaseRemainMS != nil) != tt.leads || tt.leads && *s.LeaseRemainMS != tt.lease.Milliseconds() {
			t.Errorf("%s: lease %v", name, s.LeaseRemainMS)
		}
		if s.LoopAgeMS != tt.s.LoopAgeMS+tt.by.Milliseconds() || s.Uptime != tt.s.Uptime+tt.by.Seconds() || s.HoldDownMS < 0 {
			t.Errorf("%s: loop %d ms, up %v, held for %d ms", name, s.LoopAgeMS, s.Uptime, s.HoldDownMS)
		}
	}
}
