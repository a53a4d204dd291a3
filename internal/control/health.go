package control

import (
	"cmp"
	"net/http"
	"time"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// The questions of load balancers and supervisors, as Patroni answers them: the status code
// says it all, to GET, HEAD and OPTIONS alike.

// whyNotFollowing is "" if another host leads.
func (s Status) whyNotFollowing() string {
	switch {
	case s.LeaderIsSelf, s.Leader != nil && s.Leader.ID == s.Self.ID:
		return "this host leads"
	case s.Leader == nil:
		return "no leader is known"
	}
	return ""
}

// staleAfter is how old what the loop shows may be: it shows itself every second. Arbitrary
// beyond that.
const staleAfter = 10 * time.Second

// health answers the questions about this host.
type health struct {
	Name   string `json:"name"` // of this host
	Role   string `json:"role"`
	Leader string `json:"leader"` // its name; empty while none is known
	Epoch  uint64 `json:"epoch"`
	OK     bool   `json:"ok"`  // the status is 200
	Why    string `json:"why"` // it is not
}

func (s *server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/leader", Read, s.health(func() (Status, string) {
			asked := durable.BootTime()
			status := s.reading.Status()
			return status, status.WhyNotLeading(durable.BootTime() - asked)
		})},
		{http.MethodGet, "/follower", Read, s.health(func() (Status, string) {
			status := s.reading.Status()
			return status, status.whyNotFollowing()
		})},
		{http.MethodGet, "/health", Read, s.health(func() (Status, string) { return s.reading.Status(), "" })},
		{http.MethodGet, "/livez", Read, s.health(func() (Status, string) {
			status := s.reading.Status()
			if age := time.Duration(status.LoopAgeMS) * time.Millisecond; age > staleAfter {
				return status, cmp.Or(status.Standstill, "the agent's loop stands still")
			}
			return status, ""
		})},
		{http.MethodGet, "/readyz", Read, s.health(func() (Status, string) {
			status := s.reading.Status()
			if status.Standstill != "" {
				return status, status.Standstill
			}
			if !status.Ready {
				return status, "this host has not joined, or knows no leader, or leads and its become-leader hook has not succeeded"
			}
			return status, ""
		})},
		{http.MethodGet, "/{$}", Read, s.elector},
	}
}

// health answers 200, or 503 with what is wrong.
func (s *server) health(ask func() (_ Status, why string)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		status, why := ask()
		answer := health{Name: status.Self.Name, Role: status.Role, Epoch: status.Epoch.Counter, OK: why == "", Why: why}
		if status.Leader != nil {
			answer.Leader = status.Leader.Name
		}
		code := http.StatusOK
		if why != "" {
			code = http.StatusServiceUnavailable
		}
		s.write(w, code, answer)
		return nil
	}
}

// elector answers / as the leader-elector of old Kubernetes did, whose clients look for
// their own name in it.
type elector struct {
	Name   string `json:"name"` // the leader's; empty while none is known
	Leader *Node  `json:"leader"`
}

func (s *server) elector(w http.ResponseWriter, _ *http.Request) error {
	var answer elector
	if answer.Leader = s.reading.Status().Leader; answer.Leader != nil {
		answer.Name = answer.Leader.Name
	}
	s.write(w, http.StatusOK, answer)
	return nil
}
