package control

import (
	"context"
	"net/http"
	"net/url"
)

// Explanation answers /v1/explain: why a member leads, or not, and what comes next, as the
// agent sees it that answers.
type Explanation struct {
	Member   Node     `json:"member"`   // about whom
	Self     bool     `json:"self"`     // it is the agent that answers
	Leads    bool     `json:"leads"`    // the member does
	Headline string   `json:"headline"` // one line
	Reasons  []Reason `json:"reasons"`  // what holds first, then what does not
	Then     []string `json:"then"`     // what comes next, a line each
	Cluster  Cluster  `json:"cluster"`  // what a simulation of it starts from
}

// Reason is one of the things that a leader needs.
type Reason struct {
	About string `json:"about"` // its word, for scripts: a bar's, a hurdle's, or what keeps others out
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
}

// Cluster is what an agent knows of all that decides who leads: its own settings, and its
// members. Times are in nanoseconds where they are exact settings.
type Cluster struct {
	Algorithm     string `json:"algorithm"`
	Preempt       string `json:"preempt"`
	Expect        int    `json:"expect"` // voters; 0: available mode
	Heartbeat     int64  `json:"heartbeat_ns"`
	Lease         int64  `json:"lease_ns"`
	StopBudget    int64  `json:"stop_budget_ns"`
	TakeoverDelay int64  `json:"takeover_delay_ns"`
	PreemptDelay  int64  `json:"preempt_delay_ns"`
	MinAcks       int    `json:"min_acks"` // -1: as many as suits the group
	MinMembers    int    `json:"min_members"`
	CandidateSet  int    `json:"candidate_set"`
	KnownMinimum  int    `json:"known_minimum"`

	Epoch      uint64   `json:"epoch"`
	Roster     []string `json:"roster"`       // ids; empty unless one holds
	SaveMS     float64  `json:"save_ms"`      // what writing the state took here, of late
	LoseHookMS *float64 `json:"lose_hook_ms"` // what the lose hook took here last; null: none has run
	Hosts      []Host   `json:"hosts"`        // this one first; those that have left are left out
}

// Host is a member as a simulation takes it.
type Host struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Role     string   `json:"role"` // voter, witness, observer
	Priority int      `json:"priority"`
	Here     bool     `json:"here"` // alive, and of the same settings
	Leader   bool     `json:"leader"`
	Bars     []string `json:"bars"`     // what keeps it from standing, as far as it says
	RTTMS    float64  `json:"rtt_ms"`   // 0: not measured
	Preempts bool     `json:"preempts"` // by the policy the leader gives way to it, whether or not anything keeps it from standing
}

func (s *server) explain(w http.ResponseWriter, r *http.Request) error {
	member := ""
	err := parseQuery(r.URL.RawQuery, "there is member=NAME", map[string]func(string) error{
		"member": func(value string) error { member = value; return nil }})
	if err != nil {
		return err
	}
	e, err := s.reading.Explain(r.Context(), member)
	if err != nil {
		return err
	}
	e.Reasons, e.Then, e.Cluster.Roster, e.Cluster.Hosts = list(e.Reasons), list(e.Then), list(e.Cluster.Roster), list(e.Cluster.Hosts)
	s.write(w, http.StatusOK, e)
	return nil
}

// Explain asks why the member with this name or id leads, or not; "" is the agent itself.
func (c *Client) Explain(ctx context.Context, member string) (Explanation, error) {
	path := "/v1/explain"
	if member != "" {
		path += "?" + url.Values{"member": {member}}.Encode()
	}
	return ask[Explanation](ctx, c, path)
}
