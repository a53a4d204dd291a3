package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// What the network may read (package httpd), which nobody is asked for: a part of the
// socket's routes, the questions of load balancers, and of every answer what a stranger may
// know. No orders, no output or failure of a command, no environment, no key's id, no
// path, no settings. docs/api.md has it field by field.

// onNetwork are the routes of the socket that the network has too. What they answer goes
// through publicView.
var onNetwork = []string{"/v1/status", "/v1/leader", "/v1/members", "/v1/history", "/v1/events", "/v1/explain", "/v1/jobs", "/metrics"}

// publicMethods is all that the network can send.
const publicMethods = "GET, HEAD, OPTIONS"

// Bounds on what the network may cost, both arbitrary: its event streams, and the slots of a
// job that it is told.
const (
	publicFollowers = 32
	PublicNextSlots = 10
)

// Public answers whoever asks. A nil logger discards.
func Public(r Reading, logger hclog.Logger) http.Handler {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	lim := defaultLimits
	lim.followers = publicFollowers
	s := &server{reading: r, logger: logger, limits: lim, isPublic: true}
	return s.handler()
}

// publicRoutes are those of the network.
func (s *server) publicRoutes() []route {
	routes := slices.DeleteFunc(s.routes(), func(r route) bool {
		return r.method != http.MethodGet || r.needs != Read || !slices.Contains(onNetwork, r.path)
	})
	return append(routes, s.healthRoutes()...)
}

// PublicJSON is what the network sees of an answer, for whoever passes it on: the answer that is
// decoded from it looks the same to the network.
func PublicJSON(answer any) ([]byte, error) {
	view, err := publicView(answer)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// publicView is what the network sees of an answer. A type without a view is not for the
// network: whoever adds a route says here what of it is.
func publicView(answer any) (any, error) {
	switch v := answer.(type) {
	case Status:
		return v.public(), nil
	case Leader, []Leadership, *APIError, health, elector:
		return v, nil
	case []Member:
		return views(v, Member.public), nil
	case []Job:
		return views(v, Job.public), nil
	case Event:
		return v.public(), nil
	case Explanation:
		return v.public(), nil
	}
	return nil, fmt.Errorf("%T is not for the network", answer)
}

func views[T any](all []T, public func(T) T) []T {
	shown := make([]T, len(all))
	for i, v := range all {
		shown[i] = public(v)
	}
	return shown
}

// publicStatus is the part of Status that the network sees, under the same names. What of
// Status is not here is about this host and not about the cluster: the keeper's process,
// scheduling, encryption, notes, what a reload has found.
type publicStatus struct {
	Version string `json:"version"`
	Cluster string `json:"cluster"`
	Self    Member `json:"self"`

	Role  string `json:"role"`
	State string `json:"state"`
	Cause string `json:"cause"`

	Leader       *Node  `json:"leader"`
	WhyNoLeader  string `json:"why_no_leader"`
	LeaderIsSelf bool   `json:"leader_is_self"`
	Ready        bool   `json:"ready"`
	Degraded     bool   `json:"degraded"`

	LoopAgeMS  int64  `json:"loop_age_ms"`
	Standstill string `json:"standstill"`

	Epoch  Epoch     `json:"epoch"`
	Since  time.Time `json:"since"`
	Uptime float64   `json:"uptime_seconds"`

	Mode      string `json:"mode"`
	Promise   string `json:"promise"`
	Algorithm string `json:"algorithm"`
	Preempt   string `json:"preempt"`
	Profile   string `json:"profile"`

	Expect   int      `json:"expect"`
	Roster   *Roster  `json:"roster"`
	Quorum   *Quorum  `json:"quorum"`
	Isolated bool     `json:"isolated"`
	Members  int      `json:"members"`
	Alive    int      `json:"alive"`
	Silent   []string `json:"silent"`

	Bars          []string          `json:"bars"`
	Checks        []Check           `json:"checks"`
	Resources     []Resource        `json:"resources"`
	Maintenance   *Maintenance      `json:"maintenance"`
	HoldDownMS    int64             `json:"hold_down_ms"`
	LeaseRemainMS *int64            `json:"lease_remain_ms"`
	LastHook      *Hook             `json:"last_hook"`
	Counters      map[string]uint64 `json:"counters"`
}

func (s Status) public() publicStatus {
	out := publicStatus{Version: s.Version, Cluster: s.Cluster, Self: s.Self.public(), Role: s.Role, State: s.State, Cause: s.Cause,
		Leader: s.Leader, WhyNoLeader: s.WhyNoLeader, LeaderIsSelf: s.LeaderIsSelf, Ready: s.Ready, Degraded: s.Degraded,
		LoopAgeMS: s.LoopAgeMS, Standstill: s.Standstill,
		Epoch: s.Epoch, Since: s.Since, Uptime: s.Uptime, Mode: s.Mode, Promise: s.Promise, Algorithm: s.Algorithm,
		Preempt: s.Preempt, Profile: s.Profile, Expect: s.Expect, Roster: s.Roster, Quorum: s.Quorum, Isolated: s.Isolated,
		Members: s.Members, Alive: s.Alive, Silent: s.Silent, HoldDownMS: s.HoldDownMS, LeaseRemainMS: s.LeaseRemainMS,
		Bars: s.Bars, Checks: views(s.Checks, Check.public), Resources: views(s.Resources, Resource.public), Maintenance: s.Maintenance, Counters: s.Counters}
	if s.LastHook != nil {
		hook := *s.LastHook
		hook.Error = "" // it names paths
		out.LastHook = &hook
	}
	return out
}

// public leaves out what the command has printed.
func (c Check) public() Check {
	c.Why = ""
	return c
}

// public leaves out what is about processes and addresses of other hosts.
func (r Resource) public() Resource {
	r.Text = ""
	return r
}

// publicExplanation is the part of Explanation that the network sees: not TakesBack, which names settings.
type publicExplanation struct {
	Member   Node     `json:"member"`
	Self     bool     `json:"self"`
	Leads    bool     `json:"leads"`
	Headline string   `json:"headline"`
	Reasons  []Reason `json:"reasons"`
	Then     []string `json:"then"`
}

func (e Explanation) public() publicExplanation {
	return publicExplanation{e.Member, e.Self, e.Leads, e.Headline, views(e.Reasons, Reason.public), e.Then}
}

// public leaves no more than the word of what may name paths and settings, or be what a
// check has printed or the system has said.
func (r Reason) public() Reason {
	if !r.OK && slices.Contains([]string{"disk", "check", "aside", "resource", "hook"}, r.About) {
		r.Text = r.About
	}
	return r
}

// public leaves the ids of keys out.
func (m Member) public() Member {
	m.LacksKeys = nil
	return m
}

// public leaves out what kept a command from running, which names it.
func (j Job) public() Job {
	if j.Last != nil {
		last := j.Last.public()
		j.Last = &last
	}
	j.Open = views(j.Open, JobRun.public)
	return j
}

func (r JobRun) public() JobRun {
	r.Err = ""
	return r
}

// public cuts the text of what may name paths, settings and keys.
func (e Event) public() Event {
	switch e.Type {
	case "transition", "member", "leader", "link", "start", "stop", "job", "fault":
	case "hook":
		e.Text, _, _ = strings.Cut(e.Text, ": ")
	default:
		e.Text = strings.TrimSuffix(e.Type+": "+e.Cause, ": ")
	}
	return e
}
