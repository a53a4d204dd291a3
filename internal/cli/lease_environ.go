package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bully-agent/bully-agent/internal/control"
)

// leaderEnviron is the environment of what runs on the leader: the caller's own,
// and over it what hooks are told (docs/hooks.md).
func leaderEnviron(own []string, lease control.Lease, s control.Status, socket string) []string {
	told := []struct{ name, value string }{
		{"BULLY_CAUSE", lease.Cause},
		{"BULLY_CLUSTER", s.Cluster},
		{"BULLY_NODE", s.Self.Name},
		{"BULLY_NODE_ID", s.Self.ID},
		{"BULLY_NODE_ADDR", s.Self.Addr},
		{"BULLY_ROLE", "leader"},
		{"BULLY_EPOCH", strconv.FormatUint(lease.Epoch.Counter, 10)},
		{"BULLY_EPOCH_OWNER", lease.Epoch.Owner},
		{"BULLY_LEADER", s.Self.Name},
		{"BULLY_LEADER_ID", s.Self.ID},
		{"BULLY_LEADER_ADDR", s.Self.Addr},
		{"BULLY_MODE", s.Mode},
		{"BULLY_MEMBERS_ALIVE", strconv.Itoa(s.Alive)},
		{"BULLY_SOCKET", socket},
	}
	env := slices.Clone(own)
	for _, v := range told {
		// execve takes a name twice, and then shells differ over which one counts.
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, v.name+"=") })
	}
	for _, v := range told {
		env = append(env, v.name+"="+v.value)
	}
	return env
}
