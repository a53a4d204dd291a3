package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sdnotify"
)

// agentConfig maps what the user configured to what the agent takes. It is pure:
// clock, logger, sockets and signals are added by run.
func agentConfig(c *config.Config) agent.Config {
	return agent.Config{
		Cluster:   c.Cluster,
		Name:      c.Node.Name,
		Election:  electionConfig(c),
		Profile:   c.Network.Profile,
		Seeds:     c.Network.Join,
		CheckSeed: config.CheckSeed,
		StateDir:  c.Node.StateDir,
		Hooks:     hooksConfig(c),
		Jobs:      jobsConfig(c),
		Checks:    checksConfig(c),
		Socket:    c.Control.Socket,
		Advertise: c.Network.Advertise,

		AdvertiseIsChosen: c.Network.AdvertiseIsChosen,
		Device:            c.Network.Device,

		KeyFile:  c.Network.Key,
		Hosts:    c.Network.Hosts,
		Insecure: c.Network.Insecure,
		Notes:    c.Notes,

		LoseAtStart: c.Hooks.AtStart == "lose",
	}
}

func electionConfig(c *config.Config) election.Config {
	e := c.Election
	return election.Config{
		Priority:      c.Node.Priority,
		Part:          parts[c.Node.Role],
		Algorithm:     algorithms[e.Algorithm],
		CandidateSet:  e.CandidateSet,
		KnownMinimum:  e.KnownMinimum,
		Expect:        e.Expect,
		Preempt:       policies[e.Preempt],
		PreemptDelay:  explicit(e.PreemptDelay),
		Settle:        e.Settle,
		TakeoverDelay: e.TakeoverDelay,
		Heartbeat:     e.Heartbeat,
		Lease:         e.Lease,
		StopBudget:    e.StopBudget,
		MinAcks:       e.MinAcks, // -1 is automatic here and there
		MinMembers:    e.MinMembers,
	}
}

var parts = map[string]election.Part{
	"voter":    election.Voter,
	"witness":  election.Witness,
	"observer": election.Observer,
}

var algorithms = map[string]election.Algorithm{
	"classic":  election.Classic,
	"enhanced": election.Enhanced,
	"smallest": election.Smallest,
}

var policies = map[string]election.Policy{
	"priority": election.PreemptPriority,
	"always":   election.PreemptAlways,
	"never":    election.PreemptNever,
}

func hooksConfig(c *config.Config) hooks.Config {
	h := c.Hooks
	return hooks.Config{
		Commands: map[hooks.Kind]hooks.Command{
			hooks.BecomeLeader:   hookCommand(h.OnBecomeLeader),
			hooks.LoseLeadership: hookCommand(h.OnLoseLeadership),
			hooks.LeaderChange:   hookCommand(h.OnLeaderChange),
			hooks.MemberChange:   hookCommand(h.OnMemberChange),
		},
		Timeout:   h.Timeout,
		Grace:     explicit(h.Grace),
		Resources: resourcesConfig(c),
	}
}

func resourcesConfig(c *config.Config) []hooks.Resource {
	var all []hooks.Resource
	for _, r := range c.Resources {
		r.Resource.Command = hookCommand(r.Command)
		r.Resource.Grace = explicit(r.Grace)
		all = append(all, r.Resource)
	}
	return all
}

func jobsConfig(c *config.Config) []agent.Job {
	all := make([]agent.Job, len(c.Jobs))
	for i, j := range c.Jobs {
		all[i] = agent.Job{Job: j.Job, Command: hookCommand(j.Command)}
	}
	return all
}

func checksConfig(c *config.Config) []agent.Check {
	all := make([]agent.Check, len(c.Checks))
	for i, k := range c.Checks {
		all[i] = agent.Check{Penalty: k.Penalty, Check: hooks.Check{Name: k.Name, Command: hookCommand(k.Command),
			Interval: k.Interval, Timeout: k.Timeout, Rise: k.Rise, Fall: k.Fall}}
	}
	return all
}

func hookCommand(c config.Command) hooks.Command {
	return hooks.Command{Shell: c.Shell, Argv: c.Argv}
}

// explicit keeps a configured zero from meaning "the default", as it does in the
// packages that take it.
func explicit(d time.Duration) time.Duration {
	return max(d, time.Nanosecond)
}

// applied are the settings that an agent takes up while it runs, besides the
// jobs, which are no settings; the others wait for a restart, whatever config's
// table says of them.
var applied = map[string]bool{
	"hooks.on_become_leader": true, "hooks.on_lose_leadership": true, "hooks.on_leader_change": true, "hooks.on_member_change": true,
	"timezone":      true, // of the jobs
	"hooks.timeout": true, "hooks.grace": true,
	"network.join": true, "network.key": true, "network.hosts": true, "node.priority": true, "log.level": true,
}

// reloader reads the configuration anew.
type reloader struct {
	started *config.Config // at the agent's start: settings that differ from it and cannot be taken up are found by it
	src     config.Source
	ring    key.Ring    // the agent's at its start, then of the last reload that could read it
	hadFile atomic.Bool // there was something in the file when it was read last
	wasRoot bool        // this process, when it was started
}

func newReloader(started *config.Config, ring key.Ring, src config.Source) *reloader {
	r := &reloader{started: started, ring: ring, src: src, wasRoot: os.Geteuid() == 0}
	r.hadFile.Store(started.IsFromFile())
	return r
}

// reload refuses a file that has become empty: whoever writes it in place empties it
// first, and without hooks and jobs an agent lets go of nothing. Whoever means it
// restarts the agent.
func (r *reloader) reload() (agent.Reloaded, error) {
	sdnotify.Reloading()
	defer sdnotify.Ready()
	next, ring, unreadable, err := r.read()
	if err != nil {
		return agent.Reloaded{}, err
	}
	if r.hadFile.Load() && !next.IsFromFile() {
		return agent.Reloaded{}, fmt.Errorf("%s: no setting or job is in it, though the running agent has some from it: "+
			"write it whole under another name, then rename it; or restart to run without", r.src.Path)
	}
	r.hadFile.Store(next.IsFromFile())
	if unreadable == nil {
		r.ring = ring
	}
	got := reloaded(r.started, next, r.ring)
	got.Waiting = append(got.Waiting, unread(r.src.Path, defaultConfigFile)...)
	if unreadable != nil { // what only root may read needs a restart, and nothing else does
		got.Waiting = append(got.Waiting, control.Waiting{Setting: "network.key", Now: fmt.Sprint(r.ring), Then: "not known: " + unreadable.Error()})
	}
	return got, nil
}

// refusal says why the next start would be refused, and so would a reload. What a process that has given up its rights cannot read or
// look at, the next start can: isWhole says that nothing of that is left.
func (r *reloader) refusal() (isWhole bool, refused error) {
	if r.hasGivenUp() && errors.Is(unix.Faccessat(unix.AT_FDCWD, r.src.Path, unix.R_OK, unix.AT_EACCESS), fs.ErrPermission) {
		return false, nil
	}
	_, _, unreadable, err := r.read()
	return unreadable == nil && r.seesHost(), err
}

// read reads the configuration and the keys, and checks both as a start does. unreadable is why a process that has given up its rights
// does not know the keys.
func (r *reloader) read() (next *config.Config, ring key.Ring, unreadable, err error) {
	if next, err = r.load(); err == nil {
		err = checkState(next)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if ring, err = next.Ring(); err != nil && r.hasGivenUp() {
		return next, nil, err, nil
	}
	return next, ring, nil, err
}

// unread names the file at later if the agent was started without one: agent and keeper fix the path at their start.
func unread(path, later string) []control.Waiting {
	if _, err := os.Stat(later); path != "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []control.Waiting{{Setting: "config", Then: later}}
}

// hasGivenUp: this process reads as the agent's user, no longer as who started it.
func (r *reloader) hasGivenUp() bool { return r.started.Node.User != "" && r.wasRoot }

// seesHost: a process that has given up its rights cannot look at the host as root would.
func (r *reloader) seesHost() bool { return r.started.Node.User == "" }

// load reads the configuration. What it cannot look at the keeper checks: each command, before it runs it.
func (r *reloader) load() (*config.Config, error) {
	if r.seesHost() {
		return loadChecked(r.src)
	}
	src := r.src
	src.WasRoot = r.wasRoot
	return config.Load(src)
}

func reloaded(started, next *config.Config, ring key.Ring) agent.Reloaded {
	r := agent.Reloaded{Hooks: hooksConfig(next), Jobs: jobsConfig(next), Checks: checksConfig(next), Seeds: next.Network.Join, Priority: next.Node.Priority,
		LogLevel: hclog.LevelFromString(next.Log.Level), Notes: next.Notes, Doubts: next.Passing, Keys: ring, KeyFile: next.Network.Key, Hosts: next.Network.Hosts}
	for _, s := range started.Changed(next) {
		if !applied[s.Key] {
			r.Waiting = append(r.Waiting, control.Waiting{Setting: s.Key, Now: started.Text(s.Key), Then: next.Text(s.Key)})
		}
	}
	return r
}
