package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Examination is what an agent finds out about its host, by itself and by asking the others. What the others say is proven
// only as far as Proven says, and even then is the word of any member.
type Examination struct {
	Self    Member `json:"self"`
	Version string `json:"version"`
	Profile string `json:"profile"`
	Proven  bool   `json:"proven"`  // the others have proved that they have the cluster's key
	CanAsk  bool   `json:"can_ask"` // there is a way to ask them

	HeartbeatMS  float64    `json:"heartbeat_ms"`
	StopBudgetMS float64    `json:"stop_budget_ms"`
	SyncMS       float64    `json:"sync_ms"`    // p95 of a write to the state directory
	SyncError    string     `json:"sync_error"` // why it is not known
	TurnMS       float64    `json:"turn_ms"`    // p95 of what the loop takes to come to something new
	Standstill   string     `json:"standstill"` // it does not, one sentence; what it knows is then missing here
	StateDir     string     `json:"state_dir"`
	Access       string     `json:"access"` // what is wrong with the rights of the state directory
	Scheduling   Scheduling `json:"scheduling"`
	Reader       *Reader    `json:"reader"`      // null: the network asks nothing
	MTU          int        `json:"mtu"`         // of the interface with the advertised address; 0: none has it
	Link         string     `json:"link"`        // what is wrong with that of this host's address; empty: nothing that is known
	LinkRemedy   string     `json:"link_remedy"` // what mends it

	Seeds        []string  `json:"seeds"`
	JoinError    string    `json:"join_error"` // of the last attempt to join that failed
	Failing      []string  `json:"failing"`    // entries of join that do not give what they should, each in a line
	Odd          []Odd     `json:"odd"`        // members with other settings
	Keys         []string  `json:"keys"`       // ids of this host's; empty: none is used
	OtherKeys    []Odd     `json:"other_keys"` // hosts, by address, that share none of them; nothing proves it
	KeyRemedy    string    `json:"key_remedy"` // what mends that
	Hosts        HostList  `json:"hosts"`
	OtherList    []string  `json:"other_lists"`   // members with another host list
	OtherJobs    []string  `json:"other_jobs"`    // members with other jobs
	Waiting      []Waiting `json:"waiting"`       // for a restart
	Refusal      string    `json:"refusal"`       // why the next start and a reload would be refused, a line each; empty: nothing is known
	RefusalError string    `json:"refusal_error"` // why that is not known; empty: it is
	Unseen       bool      `json:"unseen"`        // this host's agent cannot see all that a start reads
	Far          string    `json:"far"`           // which round trip the lease does not bear; empty: it bears all
	Addresses    string    `json:"addresses"`     // that this host has while it leads, between blanks; "none"; empty: not known, or it never leads
	Devices      []string  `json:"devices"`       // interfaces of its resources
	Peers        []Sight   `json:"peers"`         // members that have not left, 16 at most
}

// Odd is a member that takes no part since its settings differ.
type Odd struct {
	Name   string `json:"name"`
	Differ string `json:"differ"`
}

// noKey stands in the place of a key's id for a host without a key, as key.ID prints it.
const noKey = "none"

// AgainstKeys says that a host, of which Differ are the ids of its keys, shares none with this one, which has ours.
func (o Odd) AgainstKeys(ours string) string {
	switch noKey {
	case ours:
		return fmt.Sprintf("a host at %s has a key (id %s), and this host has none", o.Name, o.Differ)
	case o.Differ:
		return fmt.Sprintf("a host at %s has no key, and this host has %s", o.Name, ours)
	}
	return fmt.Sprintf("a host at %s has another key (id %s), and this host has %s", o.Name, o.Differ, ours)
}

// Sight is what one other host and this one see of each other.
type Sight struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Addr    string `json:"addr"`
	Status  string `json:"status"`  // alive, dead: as this agent believes
	Trouble string `json:"trouble"` // why it could not be asked by TCP; empty: what follows is its answer

	Version    string  `json:"version"`
	WireMax    int     `json:"wire_max"`
	OffsetMS   float64 `json:"offset_ms"` // its wall clock is so much ahead of this host's
	Source     string  `json:"source"`    // address at which it sees this host
	Knows      bool    `json:"knows"`     // this host is a member there; what it says of reaching it was not tried else
	Heard      uint64  `json:"heard"`     // datagrams of this host that reached it meanwhile
	PingsUs    bool    `json:"pings_us"`  // this host answered its ping
	Knock      string  `json:"knock"`     // why it could open no stream to this host; empty: it could
	MTU        int     `json:"mtu"`
	LosesLarge bool    `json:"loses_large"` // it answered a short question, and a long one not
	Addresses  string  `json:"addresses"`   // that it has while it leads, as an Examination's

	Arrived uint64 `json:"arrived"` // datagrams of it that reached this host meanwhile
	Pinged  bool   `json:"pinged"`  // it answered this host's ping
}

// DoctorBackend is the part of a Backend that looks at its host.
type DoctorBackend interface {
	// Examine takes some seconds; ctx ends when the client hangs up.
	Examine(ctx context.Context) (Examination, error)
}

// examine needs the right to act: it sends, and writes.
func (s *server) examine(w http.ResponseWriter, r *http.Request) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // which would end a request that takes longer than its sending may
	found, err := s.backend.Examine(r.Context())
	if err != nil {
		return err
	}
	found.Devices, found.OtherList = list(found.Devices), list(found.OtherList)
	found.Hosts.LeftOut, found.Hosts.LeftOutBy = list(found.Hosts.LeftOut), list(found.Hosts.LeftOutBy)
	found.Peers, found.Odd, found.OtherJobs, found.Waiting, found.Seeds = list(found.Peers), list(found.Odd), list(found.OtherJobs), list(found.Waiting), list(found.Seeds)
	s.write(w, http.StatusOK, found)
	return nil
}

// Examine has the agent look at its host and ask the others, which takes some seconds.
func (c *Client) Examine(ctx context.Context) (found Examination, err error) {
	resp, err := c.call(ctx, http.MethodPost, "/v1/doctor", nil)
	if err != nil {
		return found, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		return found, c.explain(ctx, fmt.Errorf("decode answer to /v1/doctor: %w", err))
	}
	return found, nil
}
