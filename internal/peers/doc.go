// Package peers says what hooks are told in the words of other programs that elect a leader, so that a script which was
// written for one of them runs here as it is: the arguments, the variables and the standard input that this program gives.
//
// It runs nothing. What each program does was looked up in it: keepalived 2.2.7 and ucarp 1.5.2 by running them, serf
// 0.11 and Patroni 4 in their sources.
package peers

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/bully-agent/bully-agent/hooks"
)

// Told is what a hook has been told by its environment and its standard input.
type Told struct {
	Kind    hooks.Kind // BULLY_EVENT
	Cause   string     // BULLY_CAUSE
	Cluster string     // BULLY_CLUSTER
	Epoch   string     // BULLY_EPOCH: a number
	Node    string     // BULLY_NODE: this host
	Leader  string     // BULLY_LEADER; empty: unknown

	input io.Reader // the JSON object; read when somebody asks
}

// Read takes a hook's variables and its standard input, which is read only if it is needed. The error says that there are
// no such variables: this process was not started by a hook.
func Read(getenv func(string) string, input io.Reader) (Told, error) {
	t := Told{Kind: hooks.Kind(getenv("BULLY_EVENT")), Cause: getenv("BULLY_CAUSE"), Cluster: getenv("BULLY_CLUSTER"),
		Epoch: getenv("BULLY_EPOCH"), Node: getenv("BULLY_NODE"), Leader: getenv("BULLY_LEADER"), input: input}
	kinds := []hooks.Kind{hooks.BecomeLeader, hooks.LoseLeadership, hooks.LeaderChange, hooks.MemberChange}
	switch {
	case t.Kind == "":
		return t, fmt.Errorf("this is no hook: BULLY_EVENT is not set")
	case !slices.Contains(kinds, t.Kind):
		return t, fmt.Errorf("BULLY_EVENT is %q: expected %s, %s, %s or %s", t.Kind, kinds[0], kinds[1], kinds[2], kinds[3])
	}
	return t, nil
}

// Call is how a program calls a script.
type Call struct {
	Args  []string // after those that the configuration has
	Env   []string // NAME=value, besides its own variables
	Input []byte   // standard input
}

// picture is what of the JSON object is of use here.
type picture struct {
	Self struct {
		Priority *int `json:"priority"`
	} `json:"self"`
	Members []member `json:"members"`
}

type member struct {
	Name   string `json:"name"`
	Addr   string `json:"addr"` // address:port
	Status string `json:"status"`
}

// maxInput bounds the JSON object. Arbitrary: a member takes two hundred bytes.
const maxInput = 16 << 20

// look reads the standard input.
func (t Told) look() (p picture, err error) {
	if err = json.NewDecoder(io.LimitReader(t.input, maxInput)).Decode(&p); err != nil {
		return p, fmt.Errorf("standard input is not the JSON object that a hook gets: %w", err)
	}
	return p, nil
}

// refuse is for an event that the program has no call for.
func (t Told) refuse(program string) error {
	return fmt.Errorf("%s has no call for %s: expected %s or %s", program, t.Kind, hooks.BecomeLeader, hooks.LoseLeadership)
}

// ofLeadership reports whether the event is the begin or the end of this host's leadership.
func (t Told) ofLeadership() bool {
	return t.Kind == hooks.BecomeLeader || t.Kind == hooks.LoseLeadership
}

// The causes (BULLY_CAUSE) of the end of a leadership that another program has a word of its own for. A test holds them
// against the election's.
const (
	CauseStopped        = "stopped"
	CauseUncleanRestart = "unclean-restart"
)

// Faults are the causes by which a host is not fit to lead.
func Faults() []string { return []string{"link-lost", "check-failed", "disk-failed"} }
