package hooks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a hook is told: an Event becomes an environment and a JSON object. Pure;
// the one place where strings of other hosts turn into something a shell reads.
//
// Every value of a BULLY_ variable is safe even under eval: it holds only letters,
// digits and safeMarks. Names are checked at admission (docs/security.md), so nothing
// should be left to do here; a value that breaks the rule all the same is given
// as empty, which is how an unknown one looks. It is not mended, since a mended
// name could be the valid name of another host, and the event is not refused,
// since a lose-leadership hook must run whatever a peer is called. The JSON
// object has the original; its strings are escaped.

const (
	safeMarks = `._:/[]%@+,-`

	// maxValue bounds a value's bytes: names have at most 63, socket paths 107.
	// It keeps execve from failing with E2BIG. The number is arbitrary.
	maxValue = 255
)

// CheckSocket says why a path may not stand in BULLY_SOCKET.
func CheckSocket(path string) error {
	if path == "" || Safe(path) != "" {
		return nil
	}
	return fmt.Errorf("control socket %q: hooks get this path in BULLY_SOCKET, where only letters, digits and %s are safe in a shell: choose a path of these, at most %d bytes",
		path, safeMarks, maxValue)
}

// Safe is s if it may stand in an environment variable, else empty.
func Safe(s string) string {
	if len(s) > maxValue {
		return ""
	}
	for i := range len(s) {
		if !isSafe(s[i]) {
			return ""
		}
	}
	return s
}

func isSafe(b byte) bool {
	switch {
	case '0' <= b && b <= '9', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		return true
	}
	return strings.IndexByte(safeMarks, b) >= 0
}

// Circumstances is what is added to an Event for one run of a hook.
type Circumstances struct {
	Seq     uint64
	Attempt int
	Timeout time.Duration // until TERM
	Socket  string
}

// inherited are the variables that come from the agent's own environment, with
// the values for an agent that has none (docs/hooks.md: clean environment plus
// these). They are the operator's, not a peer's, and pass as they are.
var inherited = []struct{ name, fallback string }{
	{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	{"HOME", "/"},
	{"LANG", "C.UTF-8"},
}

// Environ builds a hook's whole environment. All variables are always present,
// empty when unknown, so that scripts run under "set -u". getenv reads the
// agent's own environment.
func Environ(ev Event, c Circumstances, getenv func(string) string) []string {
	env := CleanEnviron(getenv)
	put := func(name, value string) { env = append(env, name+"="+Safe(value)) }
	put("BULLY_EVENT", string(ev.Kind))
	put("BULLY_CAUSE", ev.Cause)
	put("BULLY_CLUSTER", ev.Cluster)
	put("BULLY_NODE", ev.Self.Name)
	put("BULLY_NODE_ID", ev.Self.ID)
	put("BULLY_NODE_ADDR", ev.Self.Addr)
	put("BULLY_ROLE", ev.Role)
	put("BULLY_EPOCH", strconv.FormatUint(ev.Epoch.Counter, 10))
	put("BULLY_EPOCH_OWNER", ev.Epoch.Owner)
	put("BULLY_LEADER", ev.Leader.Name)
	put("BULLY_LEADER_ID", ev.Leader.ID)
	put("BULLY_LEADER_ADDR", ev.Leader.Addr)
	put("BULLY_PREV_LEADER", ev.PrevLeader.Name)
	put("BULLY_MODE", ev.Mode)
	put("BULLY_MEMBERS_ALIVE", strconv.Itoa(alive(ev.Members)))
	put("BULLY_SEQ", strconv.FormatUint(c.Seq, 10))
	put("BULLY_TIME", Stamp(ev.Time))
	put("BULLY_ATTEMPT", strconv.Itoa(c.Attempt))
	put("BULLY_TIMEOUT_SECONDS", seconds(c.Timeout))
	put("BULLY_SOCKET", c.Socket)
	return env
}

// CleanEnviron is a hook's environment without what is said of events, and with these.
func CleanEnviron(getenv func(string) string, also ...string) []string {
	env := make([]string, 0, 24)
	for _, v := range inherited {
		value := getenv(v.name)
		if value == "" {
			value = v.fallback
		}
		env = append(env, v.name+"="+value)
	}
	return append(env, also...)
}

// Variables names the BULLY_ variables of a hook's environment, two of which are
// settings of an agent as well: BULLY_SOCKET and BULLY_CLUSTER.
func Variables() []string {
	var names []string
	for _, v := range Environ(Event{}, Circumstances{}, func(string) string { return "" })[len(inherited):] {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

func alive(members []Member) int {
	n := 0
	for _, m := range members {
		if m.Status == "alive" {
			n++
		}
	}
	return n
}

// Stamp is RFC 3339 in UTC with all nine digits, so that stamps sort as text.
func Stamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
}

// seconds prints whole seconds without a point, for shell arithmetic; a budget
// cut to less shows milliseconds.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64)
}

// schema is raised when a field of the JSON object changes its meaning or goes.
// New fields do not raise it.
const schema = 1

type jsonEvent struct {
	Schema     int      `json:"schema"`
	Event      Kind     `json:"event"`
	Cause      string   `json:"cause"`
	Seq        uint64   `json:"seq"`
	Time       string   `json:"time"`
	Cluster    string   `json:"cluster"`
	Epoch      Epoch    `json:"epoch"`
	Self       jsonNode `json:"self"`
	Leader     jsonNode `json:"leader"`
	PrevLeader jsonNode `json:"prev_leader"`
	Members    []Member `json:"members"`
	Mode       string   `json:"mode"`
	Quorum     int      `json:"quorum"`
}

// jsonNode has a priority only while the node is a known member.
type jsonNode struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Addr     string `json:"addr"`
	Priority *int   `json:"priority,omitempty"`
}

// Payload builds the JSON object for a hook's standard input, one line. Members
// keep the caller's order, and an empty list is [], never null.
func Payload(ev Event, c Circumstances) []byte {
	doc := jsonEvent{
		Schema: schema, Event: ev.Kind, Cause: ev.Cause, Seq: c.Seq, Time: Stamp(ev.Time),
		Cluster: ev.Cluster, Epoch: ev.Epoch, Mode: ev.Mode, Quorum: ev.Quorum,
		Self: ev.describe(ev.Self), Leader: ev.describe(ev.Leader), PrevLeader: ev.describe(ev.PrevLeader),
		Members: ev.Members,
	}
	if doc.Members == nil {
		doc.Members = []Member{}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic("BUG: encode event: " + err.Error()) // strings and numbers always encode
	}
	return append(text, '\n')
}

func (ev Event) describe(n Node) jsonNode {
	node := jsonNode{ID: n.ID, Name: n.Name, Addr: n.Addr}
	for _, m := range ev.Members {
		if n.ID != "" && m.ID == n.ID {
			node.Priority = &m.Priority
			break
		}
	}
	return node
}
