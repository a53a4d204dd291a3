package agent

import (
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
)

// model is what this seat knows of all that decides who leads, for a simulation elsewhere.
func (s *seat) model(status election.Status, out election.Outlook) control.Cluster {
	cfg := s.node.Settings()
	c := control.Cluster{Algorithm: cfg.Algorithm.String(), Preempt: cfg.Preempt.String(), Expect: cfg.Expect,
		Heartbeat: int64(cfg.Heartbeat), Lease: int64(cfg.Lease), StopBudget: int64(cfg.StopBudget), TakeoverDelay: int64(cfg.TakeoverDelay),
		PreemptDelay: int64(cfg.PreemptDelay), MinAcks: cfg.MinAcks, MinMembers: cfg.MinMembers, CandidateSet: cfg.CandidateSet,
		KnownMinimum: int(cfg.KnownMinimum), Epoch: status.Epoch.Counter,
		SaveMS: float64(out.Sync.Microseconds()) / 1000}
	if s.loseTook > 0 {
		took := float64(s.loseTook.Microseconds()) / 1000
		c.LoseHookMS = &took
	}
	if status.Roster.Formed {
		for _, id := range status.Roster.IDs {
			c.Roster = append(c.Roster, id.String())
		}
	}
	for i, m := range s.around.seen().all() {
		if m.Status == membership.Left {
			continue
		}
		h := control.Host{ID: m.ID.String(), Name: m.Name, Role: m.Role.String(), Priority: int(m.Priority), Leader: m.ID == status.Leader,
			Here: i == 0 || m.ConfigHash == s.around.seen().self.ConfigHash && s.around.isHere(m.ID), Bars: []string{}, RTTMS: float64(m.RTT.Microseconds()) / 1000}
		for _, bar := range election.AllBars() {
			if i == 0 && status.Bars.Has(bar) {
				h.Bars = append(h.Bars, bar.String())
			}
		}
		known, ok := s.node.Candidate(m.ID)
		if ok && known.Unfit == election.UnfitDraining {
			h.Bars = append(h.Bars, known.Unfit.String())
		}
		h.Preempts = ok && known.Preempt == election.Preempts || i == 0 && out.Preempt == election.Preempts
		c.Hosts = append(c.Hosts, h)
	}
	return c
}
