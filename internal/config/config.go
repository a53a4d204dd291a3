// Package config turns text (a TOML file, BULLY_* environment variables and flags) into typed, validated values.
//
// One table, [Settings], names every setting once; the file's keys, the variables, the flags, the reference file and the
// messages all come from it. Precedence is flag > environment > file > default (docs/configuration.md), and every value
// remembers where it came from, so that a message can name the line or the flag to mend.
//
// [Load] reads the file and the host's name, interfaces and routes, and changes nothing. [Config.CheckHost] compares the
// result with the host, and changes nothing either.
package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// Config is everything that can be configured about one agent. Values that [Load] returned are in the ranges given
// here. It is not changed after Load, so it may be read from any goroutine.
type Config struct {
	Instance string // of several agents on this host; "": the one without a name. As in Source
	Cluster  string // 1–63 of [A-Za-z0-9._-], first a letter or digit; agents of other clusters are ignored
	Node     Node
	Network  Network
	Election Election
	Hooks    Hooks
	Control  Control
	HTTP     HTTP
	Log      Log

	Timezone string // of jobs that name none; of the IANA time zone database, never "Local"
	Jobs     []Job  // in the file's order, each name once, at most jobs.MaxJobs

	Checks []Check // likewise, at most hooks.MaxChecks

	Resources []Resource // in the file's order, in which they begin; each name once, at most hooks.MaxResources

	// Notes are things that are allowed but that a person should read once at start-up, one line each.
	Notes []string
	// Passing are notes on what the host is like now: a running agent sees by itself when that has changed.
	Passing []string

	// Look is what the caller of CheckHost and Ring knows besides.
	Look Look

	places map[string]place // Setting.Key → origin of its value; no entry: default
}

// Look is how a configuration is compared with this host, by a caller who knows more of that.
type Look struct {
	// Hook, when set, replaces the own look at a hook's command, which knows less than the package that
	// runs it (who may write the path, for one). It must only read.
	Hook func(Command) error
	// IsStart says that an agent is about to run by this: what the host may come to have, an interface of a resource, is a
	// note and no error.
	IsStart bool
	// Owners are the agents that are known to run, whose addresses no resource may take.
	Owners []vip.Owner
	// KeyOwners are users whose the keys' file may be, besides root, this process's user and Node.User.
	KeyOwners []uint32
}

// Node says who this agent is.
type Node struct {
	Name     string // 1–63 of [A-Za-z0-9._-], first a letter or digit
	Priority uint16 // higher leads
	Role     string // "voter", "witness" (votes, never leads) or "observer" (follows, and neither votes nor leads)
	Voter    bool   // Role is "voter"
	StateDir string // absolute

	Scheduling string // "auto", "realtime" or "normal"
	User       string // whose the process that reads the network becomes; "": it stays as it was started
}

// Network says where this agent is and whom it looks for.
type Network struct {
	Bind      netip.AddrPort // UDP and TCP; the address may be unspecified, the port is 1–65535
	Advertise netip.AddrPort // what others dial: never unspecified, multicast or link-local
	// AdvertiseIsChosen: nobody has named the address, so the agent may choose another one later.
	AdvertiseIsChosen bool
	Device            string   // interface or VRF that the sockets are bound to; "" is none
	Interface         string   // name of the interface that has the advertised address; "" if none has (NAT)
	Join              []string // host:port or a source of hosts, without repetitions, in the order given; names are not resolved
	Profile           string   // "lan", "fast" or "wan": presets for Heartbeat, Lease and StopBudget
	Key               string   // absolute path of the keys' file; "" if there is no home directory. See Ring
	Insecure          bool     // no key is used

	Hosts identity.Hosts // who may join, by id; none: each host that has the key
}

// Election says how a leader is found and for how long it may be silent.
//
// Invariants: Lease ≥ 4 × Heartbeat, Lease > 2 × StopBudget, Lease − StopBudget ≥ 3 × Heartbeat (protocol 2.5), Settle ≥ 2 × Heartbeat.
type Election struct {
	Algorithm     string        // "classic", "enhanced" or "smallest"
	Expect        int           // voters of the whole cluster, 3–15; 0: available mode
	CandidateSet  int           // 0–1000, of enhanced; 0: the better half
	KnownMinimum  uint16        // a priority, of smallest; 0: not known
	Preempt       string        // "priority", "always" or "never"
	PreemptDelay  time.Duration // 0–24 h
	Settle        time.Duration // 1 ms–1 h
	TakeoverDelay time.Duration // 0–1 h
	Heartbeat     time.Duration // 5 ms–60 s
	Lease         time.Duration // 20 ms–10 min
	StopBudget    time.Duration // 1 ms–5 min
	MinAcks       int           // 0–1000; -1: automatic
	MinMembers    int           // 0–1000
}

// Hooks are the user's commands and their bounds.
type Hooks struct {
	OnBecomeLeader, OnLoseLeadership, OnLeaderChange, OnMemberChange Command

	AtStart string // "nothing", or "lose": OnLoseLeadership, which is set then, runs first of all

	Timeout time.Duration // 10 ms–24 h: then TERM
	Grace   time.Duration // 0–1 h between TERM and KILL
}

// Command is a line for /bin/sh -c or an argument vector; never both. The zero Command runs nothing.
type Command struct {
	Shell string
	Argv  []string // Argv[0] is an absolute path or a name without a slash
}

// IsZero reports whether there is nothing to run.
func (c Command) IsZero() bool { return c.Shell == "" && len(c.Argv) == 0 }

// String is the command as it would stand in the file.
func (c Command) String() string {
	if len(c.Argv) == 0 {
		return quote(c.Shell)
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = quote(w)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// Control is the local API.
type Control struct {
	Socket   string   // absolute path of the unix socket, at most 107 bytes
	Group    string   // whose members may connect, besides root and the agent's user; "": nobody's
	GroupMay []string // of control.Rights, each once
}

// HTTP is what the network may read.
type HTTP struct {
	Listen    netip.AddrPort // TCP; the zero AddrPort: off
	Cert, Key string         // absolute paths; both or none
	Hosts     []string       // lower case, each once
}

// Log is what is logged and how.
type Log struct {
	Level  string // "trace", "debug", "info", "warn", "error" or "off"
	Format string // "text" or "json"
}

// Source is where Load looks. The zero Source gives the defaults.
type Source struct {
	Path  string                      // the TOML file; "": none
	Env   func(string) (string, bool) // as os.LookupEnv; nil: an empty environment. An empty variable counts as not set
	Names []string                    // of all variables of the environment, looked through for slips; nil: none
	Flags map[string][]string         // flag name without dashes → its values; only flags that were given

	// Instance names one of several agents on this host, and so what its directories are called by default: a name that
	// CheckInstance lets pass. "": the one without a name.
	Instance string

	// WasRoot has the defaults, and what is asked of the file, be those of root: this process was when it was started.
	WasRoot bool
}

// Load reads the file, the environment and the flags, fills in the defaults, and validates everything that needs
// neither the network nor a change on disk.
//
// The error joins one *Error for each thing wrong, at most 25: first the file's by line, then the environment's, then
// the flags'. No Config comes with it. errors.As finds the first, whose ExitCode holds for all.
func Load(src Source) (*Config, error) {
	h := thisHost()
	h.root = h.root || src.WasRoot
	return load(src, h)
}

// Origin says where a setting's value came from: "agent.toml:7:12", "BULLY_PRIORITY", "--priority" or "default".
func (c *Config) Origin(key string) string { return c.places[key].String() }

// IsFromFile reports whether the file has anything in it: a setting, or a job.
func (c *Config) IsFromFile() bool {
	for _, p := range c.places {
		if p.origin == fromFile {
			return true
		}
	}
	return len(c.Jobs) > 0 || len(c.Checks) > 0 || len(c.Resources) > 0
}

// Text is the setting's value in the words of the file, or "" if there is no such setting.
func (c *Config) Text(key string) string {
	for _, s := range settings {
		if s.Key == key {
			return s.field.text(c)
		}
	}
	return ""
}

// Changed lists the settings whose values differ in other, in the table's order. A reload applies those that are
// Reloadable and names the rest.
func (c *Config) Changed(other *Config) []Setting {
	var changed []Setting
	for _, s := range settings {
		if s.field.text(c) != s.field.text(other) {
			changed = append(changed, s)
		}
	}
	return changed
}
