package config

import (
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Setting is one line of the table of all settings. The command line builds its flags from it.
type Setting struct {
	Key        string   // "node.priority"; the file also takes hyphens for underscores
	Flag       string   // "priority"; "" when there is no flag
	Env        string   // "BULLY_PRIORITY"
	Usage      string   // one line, lower case, without a full stop
	Default    string   // as it would be written after the flag, or what it is worked out from
	Repeatable bool     // the flag may be given again, and values may be separated by commas
	Switch     bool     // the flag takes no value
	Reloadable bool     // a reload applies it; the others need a restart
	Words      []string // all that it may be; empty: too much to list

	derived bool // Default is a description; derive fills the value in
	field   field
}

// Settings returns the table of all settings in the order of the reference file. The slice is the caller's.
func Settings() []Setting {
	all := slices.Clone(settings)
	for i := range all {
		all[i].Words = slices.Clone(all[i].field.words)
	}
	return all
}

// DefaultSocket is where an agent started by the same user without --socket listens, for commands that talk to it: the
// one of that instance, or with "" the one without a name. It is "" when the environment names no home directory.
func DefaultSocket(env func(string) (string, bool), instance string) string {
	l := newLoader(Source{Env: env, Instance: instance}, thisHost())
	return l.defaultSocket(l.defaultStateDir())
}

// Bounds that are not the protocol's are arbitrary, and wide: they catch a slip of the unit, not a taste.
var settings = []Setting{
	{
		Key: "cluster", Flag: "cluster", Env: "BULLY_CLUSTER", Default: "default",
		Usage: "name of the cluster; agents of another one are ignored",
		field: label(func(c *Config) *string { return &c.Cluster }),
	},
	{
		Key: "timezone", Env: "BULLY_TIMEZONE", Default: "UTC", Reloadable: true,
		Usage: "time zone of jobs that name none; the same on all nodes",
		field: zone(func(c *Config) *string { return &c.Timezone }),
	},
	{
		Key: "node.name", Flag: "name", Env: "BULLY_NAME", Default: "the host's name", derived: true,
		Usage: "name of this node, shown to users and hooks",
		field: label(func(c *Config) *string { return &c.Node.Name }),
	},
	{
		Key: "node.priority", Flag: "priority", Env: "BULLY_PRIORITY", Default: "100", Reloadable: true,
		Usage: "the highest leads, 0 to 65535; equal ones are told apart by id",
		field: integer(func(c *Config) *uint16 { return &c.Node.Priority }, 0, 65535),
	},
	{
		// BULLY_ROLE is what hooks are told; a setting of that name would be read by commands inside hooks.
		Key: "node.role", Env: "BULLY_NODE_ROLE", Default: "voter",
		Usage: "voter; witness, which votes and never leads; or observer, which does neither",
		field: oneOf(func(c *Config) *string { return &c.Node.Role }, "voter", "witness", "observer"),
	},
	{
		Key: "node.voter", Env: "BULLY_VOTER", Default: "true",
		Usage: "take part in elections; false is short for role observer",
		field: boolean(func(c *Config) *bool { return &c.Node.Voter }),
	},
	{
		Key: "node.state_dir", Flag: "state-dir", Env: "BULLY_STATE_DIR", derived: true,
		Default: "/var/lib/bully-agent as root, else under $XDG_STATE_HOME or ~/.local/state",
		Usage:   "directory for the id and the epoch, which must survive a restart",
		field:   path(func(c *Config) *string { return &c.Node.StateDir }),
	},
	{
		Key: "node.scheduling", Flag: "scheduling", Env: "BULLY_SCHEDULING", Default: "auto",
		Usage: "realtime: before ordinary programs; normal; or auto: realtime where the agent may",
		field: oneOf(func(c *Config) *string { return &c.Node.Scheduling }, "auto", "realtime", "normal"),
	},
	{
		Key: "node.user", Flag: "user", Env: "BULLY_USER",
		Usage: "user that the process which reads the network becomes; hooks stay the starter's",
		field: account(func(c *Config) *string { return &c.Node.User }),
	},
	{
		Key: "network.bind", Flag: "bind", Env: "BULLY_BIND", Default: "0.0.0.0:7950",
		Usage: "address:port to listen on, UDP and TCP; templates such as {{ GetInterfaceIP \"eth0\" }} work",
		field: bindField,
	},
	{
		Key: "network.advertise", Flag: "advertise", Env: "BULLY_ADVERTISE", derived: true,
		Default: "first private address of the interface",
		Usage:   "address[:port] that others reach this node at",
		field:   advertiseField,
	},
	{
		Key: "network.device", Flag: "device", Env: "BULLY_DEVICE",
		Usage: "interface or VRF to which all sockets of the port are bound, such as blue",
		field: device(func(c *Config) *string { return &c.Network.Device }, anInterface+"; or nothing"),
	},
	{
		Key: "network.join", Flag: "join", Env: "BULLY_JOIN", Default: "", Repeatable: true, Reloadable: true,
		Usage: "host[:port] of any member, srv:NAME, exec:/PATH or mdns; all are asked again at every attempt, for ever",
		field: joinField,
	},
	{
		Key: "network.profile", Flag: "profile", Env: "BULLY_PROFILE", Default: "lan",
		Usage: "timers: lan (lease 400ms), fast (160ms) or wan (8s)",
		field: oneOf(func(c *Config) *string { return &c.Network.Profile }, "lan", "fast", "wan"),
	},
	{
		Key: "network.key", Flag: "key", Env: "BULLY_KEY", derived: true, Reloadable: true,
		Default: "/etc/bully-agent/key as root, else under $XDG_CONFIG_HOME or ~/.config",
		Usage:   "file of the keys that the hosts of the cluster share: the path, never a key",
		field:   keyField,
	},
	{
		Key: hostsKey, Env: "BULLY_HOSTS", Default: "", Repeatable: true, Reloadable: true,
		Usage: "the hosts that may join, by name and id (bully-agent id); none: each host that has the key",
		field: hostsField,
	},
	{
		Key: "network.insecure", Flag: "insecure", Env: "BULLY_INSECURE", Default: "false", Switch: true,
		Usage: "use no key: each host that reaches the port can join, and lead",
		field: boolean(func(c *Config) *bool { return &c.Network.Insecure }),
	},
	{
		Key: "election.algorithm", Flag: "algorithm", Env: "BULLY_ALGORITHM", Default: "classic",
		Usage: "how the leader is found: classic, enhanced or smallest; the same on all nodes",
		field: oneOf(func(c *Config) *string { return &c.Election.Algorithm }, "classic", "enhanced", "smallest"),
	},
	{
		Key: "election.expect", Flag: "expect", Env: "BULLY_EXPECT", Default: "0",
		Usage: "voters of the whole cluster, 3 to 15: quorum mode; 0: available mode",
		field: expectField,
	},
	{
		Key: "election.candidate_set", Env: "BULLY_CANDIDATE_SET", Default: "0",
		Usage: "enhanced: how many of the best are asked at first; 0: the better half",
		field: integer(func(c *Config) *int { return &c.Election.CandidateSet }, 0, 1000),
	},
	{
		Key: "election.known_minimum", Env: "BULLY_KNOWN_MINIMUM", Default: "0",
		Usage: "smallest: the lowest priority that exists, whose node need not ask; 0: not known",
		field: integer(func(c *Config) *uint16 { return &c.Election.KnownMinimum }, 0, 65535),
	},
	{
		Key: "election.preempt", Flag: "preempt", Env: "BULLY_PREEMPT", Default: "priority",
		Usage: "when a better node displaces a live leader: priority, always or never",
		field: oneOf(func(c *Config) *string { return &c.Election.Preempt }, "priority", "always", "never"),
	},
	{
		Key: "election.preempt_delay", Flag: "preempt-delay", Env: "BULLY_PREEMPT_DELAY", Default: "1s",
		Usage: "wait this long before displacing a live leader",
		field: duration(func(c *Config) *time.Duration { return &c.Election.PreemptDelay }, 0, 24*time.Hour),
	},
	{
		Key: "election.settle", Flag: "settle", Env: "BULLY_SETTLE", Default: "2s",
		Usage: "listen this long before the first election",
		field: duration(func(c *Config) *time.Duration { return &c.Election.Settle }, time.Millisecond, time.Hour),
	},
	{
		Key: "election.takeover_delay", Flag: "takeover-delay", Env: "BULLY_TAKEOVER_DELAY", Default: "0s",
		Usage: "wait this much longer before taking over from a leader that did not hand over",
		field: duration(func(c *Config) *time.Duration { return &c.Election.TakeoverDelay }, 0, time.Hour),
	},
	{
		Key: "election.heartbeat", Env: "BULLY_HEARTBEAT", Default: "50ms (profile lan), 20ms (fast), 1s (wan)", derived: true,
		Usage: "interval of the leader's heartbeats",
		field: duration(func(c *Config) *time.Duration { return &c.Election.Heartbeat }, 5*time.Millisecond, time.Minute),
	},
	{
		Key: "election.lease", Env: "BULLY_LEASE", Default: "400ms (profile lan), 160ms (fast), 8s (wan)", derived: true,
		Usage: "how long a leader may act after its heartbeats were last acknowledged",
		field: duration(func(c *Config) *time.Duration { return &c.Election.Lease }, 20*time.Millisecond, 10*time.Minute),
	},
	{
		Key: "election.stop_budget", Env: "BULLY_STOP_BUDGET", Default: "a quarter of the lease", derived: true,
		Usage: "stepping down begins this long before the lease ends",
		field: duration(func(c *Config) *time.Duration { return &c.Election.StopBudget }, time.Millisecond, 5*time.Minute),
	},
	{
		Key: "election.min_acks", Env: "BULLY_MIN_ACKS", Default: "-1",
		Usage: "members that must acknowledge the leader for it to stay; -1: 1 while two others are alive, else 0",
		field: integer(func(c *Config) *int { return &c.Election.MinAcks }, -1, 1000),
	},
	{
		Key: "election.min_members", Env: "BULLY_MIN_MEMBERS", Default: "0",
		Usage: "nobody leads while fewer members than this can be elected; 0: no minimum",
		field: integer(func(c *Config) *int { return &c.Election.MinMembers }, 0, 1000),
	},
	{
		Key: "hooks.on_become_leader", Flag: "on-become-leader", Env: "BULLY_ON_BECOME_LEADER", Reloadable: true,
		Usage: "shell command run when this node becomes the leader",
		field: command(func(c *Config) *Command { return &c.Hooks.OnBecomeLeader }),
	},
	{
		Key: "hooks.on_lose_leadership", Flag: "on-lose-leadership", Env: "BULLY_ON_LOSE_LEADERSHIP", Reloadable: true,
		Usage: "shell command run when this node stops being the leader",
		field: command(func(c *Config) *Command { return &c.Hooks.OnLoseLeadership }),
	},
	{
		Key: "hooks.on_leader_change", Flag: "on-leader-change", Env: "BULLY_ON_LEADER_CHANGE", Reloadable: true,
		Usage: "shell command run when this node learns of another leader, or of none",
		field: command(func(c *Config) *Command { return &c.Hooks.OnLeaderChange }),
	},
	{
		Key: "hooks.on_member_change", Flag: "on-member-change", Env: "BULLY_ON_MEMBER_CHANGE", Reloadable: true,
		Usage: "shell command run when a member joins, leaves, fails or changes",
		field: command(func(c *Config) *Command { return &c.Hooks.OnMemberChange }),
	},
	{
		Key: "hooks.at_start", Env: "BULLY_AT_START", Default: "nothing",
		Usage: "run first at each start: nothing, or lose: the lose hook",
		field: oneOf(func(c *Config) *string { return &c.Hooks.AtStart }, "nothing", "lose"),
	},
	{
		Key: "hooks.timeout", Flag: "hook-timeout", Env: "BULLY_HOOK_TIMEOUT", Default: "30s", Reloadable: true,
		Usage: "a hook that runs longer gets TERM",
		field: duration(func(c *Config) *time.Duration { return &c.Hooks.Timeout }, 10*time.Millisecond, 24*time.Hour),
	},
	{
		Key: "hooks.grace", Flag: "hook-grace", Env: "BULLY_HOOK_GRACE", Default: "5s", Reloadable: true,
		Usage: "time between TERM and KILL for a hook",
		field: duration(func(c *Config) *time.Duration { return &c.Hooks.Grace }, 0, time.Hour),
	},
	{
		Key: "control.socket", Flag: "socket", Env: "BULLY_SOCKET", derived: true,
		Default: "/run/bully-agent/agent.sock as root, else under $XDG_RUNTIME_DIR or the state directory",
		Usage:   "unix socket of the local API",
		field:   socketField,
	},
	{
		Key: "control.group", Env: "BULLY_CONTROL_GROUP",
		Usage: "group whose members may use the local API, besides root and the agent's user",
		field: account(func(c *Config) *string { return &c.Control.Group }),
	},
	{
		Key: "control.group_may", Env: "BULLY_CONTROL_GROUP_MAY", Default: "read", Repeatable: true,
		Usage: "the group's rights: " + strings.Join(control.Rights(), ", "),
		field: words(func(c *Config) *[]string { return &c.Control.GroupMay }, control.Rights()...),
	},
	{
		Key: "http.listen", Flag: "http-listen", Env: "BULLY_HTTP_LISTEN",
		Usage: "address[:port] where the network may ask who leads, over HTTP, and nothing more; none: off",
		field: httpListenField,
	},
	{
		Key: "http.cert_file", Flag: "http-cert-file", Env: "BULLY_HTTP_CERT_FILE",
		Usage: "file of the certificate of that port, with its chain, in PEM; none: plain HTTP",
		field: optionalPath(func(c *Config) *string { return &c.HTTP.Cert }),
	},
	{
		Key: "http.key_file", Flag: "http-key-file", Env: "BULLY_HTTP_KEY_FILE",
		Usage: "file of the certificate's key: the path, never the key itself",
		field: optionalPath(func(c *Config) *string { return &c.HTTP.Key }),
	},
	{
		Key: "http.hosts", Env: "BULLY_HTTP_HOSTS", Repeatable: true,
		Usage: "names under which that port is asked without TLS, if the world could know them",
		field: httpHostsField,
	},
	{
		Key: "log.level", Flag: "log-level", Env: "BULLY_LOG_LEVEL", Default: "info", Reloadable: true,
		Usage: "trace, debug, info, warn, error or off",
		field: oneOf(func(c *Config) *string { return &c.Log.Level }, "trace", "debug", "info", "warn", "error", "off"),
	},
	{
		Key: "log.format", Flag: "log-format", Env: "BULLY_LOG_FORMAT", Default: "text",
		Usage: "text or json",
		field: oneOf(func(c *Config) *string { return &c.Log.Format }, "text", "json"),
	},
}
