package control

import (
	"context"
	"time"
)

// Node names one participant.
type Node struct {
	ID   string `json:"id"`   // UUID, for ever the same
	Name string `json:"name"` // the host's label, [A-Za-z0-9][A-Za-z0-9._-]{0,62}
	Addr string `json:"addr"` // ip:port that the others reach
}

// Epoch is the number and owner of one leadership: the fencing token. The zero
// Epoch means that none is known.
type Epoch struct {
	Counter uint64 `json:"counter"`
	Owner   string `json:"owner"` // Node.ID of the only node that leads under it
}

// Status is everything that one agent says about itself. All keys are always
// there; what does not apply is null, empty or zero.
type Status struct {
	Version string `json:"version"` // of the agent, not of the client
	Cluster string `json:"cluster"`
	Self    Member `json:"self"`

	Role  string `json:"role"`  // follower, candidate, leader, witness, observer
	State string `json:"state"` // finer: start follow suspect stagger elect wait claim lead stopping observe
	Cause string `json:"cause"` // of the last change of role

	Leader       *Node  `json:"leader"`        // null while none is known
	WhyNoLeader  string `json:"why_no_leader"` // one sentence; empty while one is known
	LeaderIsSelf bool   `json:"leader_is_self"`
	// Ready says that this agent has joined and knows a leader; on the leader
	// also that it has its resources, and that its become hook has succeeded.
	Ready bool `json:"ready"`
	// Degraded says that this agent leads, though its become hook or a resource
	// failed, or it should not lead, since nobody else can.
	Degraded bool `json:"degraded"`

	LoopAgeMS  int64  `json:"loop_age_ms"` // since the agent's loop has shown what is said here, which it does every second
	Standstill string `json:"standstill"`  // it stands still, and for what, one sentence; empty: it turns

	Epoch  Epoch     `json:"epoch"`
	Since  time.Time `json:"since"`          // when this node took its role
	Uptime float64   `json:"uptime_seconds"` // of the agent

	Mode      string `json:"mode"`    // available, quorum
	Promise   string `json:"promise"` // what the mode promises, one sentence
	Algorithm string `json:"algorithm"`
	Preempt   string `json:"preempt"`
	Profile   string `json:"profile"`

	Expect   int      `json:"expect"`   // voters of the whole cluster; 0 in available mode
	Roster   *Roster  `json:"roster"`   // null in available mode, and while none is known
	Quorum   *Quorum  `json:"quorum"`   // null in available mode
	Isolated bool     `json:"isolated"` // nobody answers, though others should be alive
	Members  int      `json:"members"`  // known, self included, left excluded
	Alive    int      `json:"alive"`    // of them believed alive and heard lately, self included
	Silent   []string `json:"silent"`   // names of those that are believed alive and were not heard lately

	Bars        []string     `json:"bars"`        // what keeps this node from standing: part, roster, leave, disk, link, hold-down, check, maintenance, not-listed
	Checks      []Check      `json:"checks"`      // of this host, in the configuration's order
	Resources   []Resource   `json:"resources"`   // what this host has while it leads, in the configuration's order
	Maintenance *Maintenance `json:"maintenance"` // null: nobody is at work on this host

	HoldDownMS    int64   `json:"hold_down_ms"`    // this node does not stand for so long, after a step-down
	LeaseRemainMS *int64  `json:"lease_remain_ms"` // null unless leading
	LastHook      *Hook   `json:"last_hook"`       // null before the first
	Keeper        *Keeper `json:"keeper"`
	Reader        *Reader `json:"reader"` // null: the network asks nothing

	Scheduling Scheduling        `json:"scheduling"`
	Hosts      HostList          `json:"hosts"`
	Encryption string            `json:"encryption"` // what protects the LAN port, in words
	Waiting    []Waiting         `json:"waiting"`    // what a reload found changed and cannot apply
	Notes      []string          `json:"notes"`      // warnings, one sentence each
	Counters   map[string]uint64 `json:"counters"`   // since the start, by name
}

// Check is one of this host's.
type Check struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`   // pending, passes, fails
	Since  time.Time `json:"since"`   // it is in this state
	Why    string    `json:"why"`     // its last run failed, in one line; empty: it did not
	OnFail string    `json:"on_fail"` // "ineligible", "priority -50"
}

// Resource is something that this host has while it leads.
type Resource struct {
	Name   string `json:"name"`
	What   string `json:"what"`    // "address 192.168.1.50/24 on eth0"
	Here   bool   `json:"here"`    // this host has it, and keeps it
	OnFail string `json:"on_fail"` // "hand-over", "stay"
	Text   string `json:"text"`    // more of it, for people; empty: nothing
}

// LongestMaintenance bounds maintenance that ends by itself. Arbitrary: whoever needs longer
// leaves the time out.
const LongestMaintenance = 31 * 24 * time.Hour

// Maintenance says that an operator is at work on a host, which does not lead meanwhile.
type Maintenance struct {
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // zero: an operator ends it
}

// OKToStop answers /v1/ok-to-stop: what would be left if this host were stopped now.
type OKToStop struct {
	OK     bool   `json:"ok"`
	Text   string `json:"text"`   // the answer in one line
	Leader *Node  `json:"leader"` // who leads then; null: nobody
	Stay   int    `json:"stay"`   // voters that answer, or in available mode hosts, without this one
	Of     int    `json:"of"`     // of so many, this one included
	Need   int    `json:"need"`   // without so many nobody leads; 0: any number will do
}

// Scheduling is how the kernel schedules the agent.
type Scheduling struct {
	Policy string `json:"policy"` // realtime, normal
	Why    string `json:"why"`    // it is normal, a clause; empty under realtime
	Memory string `json:"memory"` // whether it is locked, and what of it; empty if realtime was never in force
}

// Waiting is a setting that was changed and holds only after a restart.
type Waiting struct {
	Setting string `json:"setting"` // "election.expect"
	Now     string `json:"now"`     // as a configuration would have it
	Then    string `json:"then"`
}

// Quorum counts voters.
type Quorum struct {
	Need int `json:"need"` // a majority of the roster; all of them while it is not formed
	Have int `json:"have"` // voters heard from, self included
}

// Roster is who may vote.
type Roster struct {
	Version uint32  `json:"version"` // rises with each change
	Formed  bool    `json:"formed"`  // all of them have it on disk; before that nobody leads
	Voters  []Voter `json:"voters"`  // by name
}

// Voter is one of the roster.
type Voter struct {
	ID    string `json:"id"`
	Name  string `json:"name"` // with its address where several members have the name; empty if this agent has not met it since its start
	Alive bool   `json:"alive"`
	Self  bool   `json:"self"`
}

// Hook is the outcome of one hook run.
type Hook struct {
	Event  string    `json:"event"` // become-leader, lose-leadership, leader-change, member-change
	Epoch  Epoch     `json:"epoch"`
	OK     bool      `json:"ok"`
	Exit   int       `json:"exit"` // exit status; -1 when a signal ended it
	TookMS float64   `json:"took_ms"`
	Time   time.Time `json:"time"` // when it ended

	Attempts  int    `json:"attempts"`   // that were made for this event
	TakenOver bool   `json:"taken_over"` // it ran, or ended, while the agent was dead or frozen
	Error     string `json:"error"`      // empty if it succeeded
}

// Keeper is the process that runs hooks and jobs, also the lose-leadership hook if the agent dies
// or freezes.
type Keeper struct {
	Process int    `json:"process"` // its id; 0 while it starts, or if there is none
	Error   string `json:"error"`   // why there is none; empty if there is
}

// Reader is the process that answers the network.
type Reader struct {
	Process int    `json:"process"` // its id; 0 while it starts, or if there is none
	Error   string `json:"error"`   // why there is none; empty if there is
	Addr    string `json:"addr"`    // ip:port at which the network asks
	Lacks   string `json:"lacks"`   // what of its confinement this host does not bear; empty: nothing
}

// Member is one participant as this agent sees it.
type Member struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Addr     string `json:"addr"`
	Status   string `json:"status"` // alive, suspect (not heard for a while), dead, left, told (by others: not met, and no member)
	Role     string `json:"role"`   // voter, witness, observer; the latter too if the roster leaves it out
	Priority int    `json:"priority"`
	Voter    bool   `json:"voter"`
	Outside  bool   `json:"outside,omitempty"` // quorum mode: its settings let it vote, and the roster leaves it out
	Self     bool   `json:"self"`
	Leader   bool   `json:"leader"`
	Draining bool   `json:"draining"` // it cannot lead now, by its own word

	// Mute says that it answers pings and not the election, which a leader alone can tell; left out if it is not so.
	Mute bool `json:"mute,omitempty"`

	// Relayed says that it is dead for this agent, which it does not answer, while other hosts reach it; left out if it is not so.
	Relayed bool `json:"relayed,omitempty"`

	// Maintenance is the reason for which an operator is at work on it, or empty; left out if nobody is.
	Maintenance *string `json:"maintenance,omitempty"`

	Incarnation uint32  `json:"incarnation"`        // of the life that is known
	RTTMS       float64 `json:"rtt_ms"`             // 0: not measured
	HeardMS     *int64  `json:"heard_ms,omitempty"` // since anything of it reached this agent; never: left out

	// Notes are what the agent that answers finds odd of the member, beside what the other fields say, in a few words each: "settings
	// differ", "jobs differ", "round trip too long for the lease". They name no setting, as the notes of Status do. Left out if there
	// are none.
	Notes []string `json:"notes,omitempty"`

	// LacksKeys are the ids of this agent's keys that the member has not; left out if it has all.
	LacksKeys []string `json:"lacks_keys,omitempty"`
}

// Leader answers /v1/leader.
type Leader struct {
	Node  Node      `json:"node"`
	Epoch Epoch     `json:"epoch"`
	Self  bool      `json:"self"`           // the agent that answers is the leader
	Ready bool      `json:"ready"`          // as in Status: with Self, its become hook has succeeded
	Since time.Time `json:"since,omitzero"` // when the leadership began, if that is known
}

// Leadership is one entry of the history.
type Leadership struct {
	Epoch  Epoch     `json:"epoch"`
	Leader Node      `json:"leader"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to,omitzero"` // zero: still on
	Began  string    `json:"began"`       // the cause
	Ended  string    `json:"ended"`       // the cause; empty while it is on
	Self   bool      `json:"self"`
}

// Event is something that happened on this agent.
type Event struct {
	// Seq rises by one from 1 with each event since the agent's start. A reader
	// that finds a gap was too slow: the agent keeps the last RingSize events.
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"`
	Type       string    `json:"type"` // transition, member, hook, job, check, resource, leader, link, keys, start, stop, warning
	Role       string    `json:"role,omitempty"`
	Cause      string    `json:"cause,omitempty"`
	Member     string    `json:"member,omitempty"` // name of the member it is about
	Leader     string    `json:"leader,omitempty"` // name of the leader after it
	Text       string    `json:"text"`             // one line for people
	Epoch      *Epoch    `json:"epoch,omitempty"`
	DurationMS float64   `json:"duration_ms,omitempty"`
}

// Reading is what of a Backend the network may ask: the agent, the reader that answers in its
// place, or a fake in tests. All methods may be called from any goroutine at any time, and what
// they return belongs to the caller.
type Reading interface {
	MetricsBackend
	// Status is true at the moment of the call. In particular it looks at the
	// clock before it says "leader": clients act on the answer.
	Status() Status
	Members() []Member
	// History lists past leaderships and the present one, oldest first.
	History() []Leadership
	// Explain says why the member with this name or id leads, or not; "" is this one.
	// It waits for the agent's loop; ctx ends when the client hangs up.
	Explain(ctx context.Context, member string) (Explanation, error)
	// Events returns the kept events with a Seq above since, oldest first, and
	// a channel that is closed when there is a newer one.
	Events(since uint64) ([]Event, <-chan struct{})
	// Jobs lists the jobs in the configuration's order, each with its next slots:
	// so many, fewer if it has fewer. ctx ends when the client hangs up.
	Jobs(ctx context.Context, next int) ([]Job, error)
}

// Backend is what the server asks: the agent, or a fake in tests. All methods
// may be called from any goroutine at any time. All but Explain, Jobs, Reload and
// Command return at once, and what they return belongs to the caller.
type Backend interface {
	Reading
	LeaseBackend
	JobBackend
	HookBackend
	KeyBackend
	DoctorBackend
	// Reload validates the configuration and takes it; an error says that
	// nothing was changed. What it cannot take is in Status. Unless drops, a host
	// list that would leave out a member that is here is an error.
	Reload(ctx context.Context, drops bool) error
	// OKToStop says what would be left if this host were stopped now.
	OKToStop(ctx context.Context) (OKToStop, error)
	// Command does what name says: step-down, stand, handover, forget, leave, maintenance,
	// job-run, job-pause, job-resume. It returns when that is done, ErrUnsupported for a
	// name it does not know, and an *APIError to choose what the client is told.
	// ctx ends when the client hangs up or the server stops.
	Command(ctx context.Context, name string, args map[string]string) error
}
