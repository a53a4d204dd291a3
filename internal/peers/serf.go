package peers

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/hooks"
)

// Serf is what an event handler of serf is called with: variables, and the members or the payload on standard input. A
// change of leadership is a user event that has the hook's name: serf itself knows no leader.
type Serf struct {
	Tags map[string]string // of this host; "role" has a variable of its own
}

// Call gives variables and standard input. The error says that the standard input of the hook cannot be read.
func (s Serf) Call(t Told) (Call, error) {
	if t.Kind != hooks.MemberChange {
		who := t.Leader
		if t.Kind == hooks.BecomeLeader {
			who = t.Node
		}
		return Call{Env: append(s.environ(t, "user"), "SERF_USER_EVENT="+string(t.Kind), "SERF_USER_LTIME="+t.Epoch), Input: payload(who)}, nil
	}
	p, err := t.look()
	if err != nil {
		return Call{}, err
	}
	event, status := memberEvent(t.Cause)
	var lines strings.Builder
	for _, m := range p.Members {
		if m.Status == status {
			lines.WriteString(s.line(m, t.Node))
		}
	}
	return Call{Env: s.environ(t, event), Input: []byte(lines.String())}, nil
}

// memberEvent is serf's word for news of a member, and the status of the members that it is about. Which of them it was is
// not told, since the newest change takes the place of those that have not run: it is all that have this status now.
func memberEvent(news string) (event, status string) {
	switch news {
	case "left":
		return "member-leave", "left"
	case "failed":
		return "member-failed", "dead"
	case "restarted":
		return "member-update", "alive"
	}
	return "member-join", "alive"
}

func (s Serf) environ(t Told, event string) []string {
	env := []string{"SERF_EVENT=" + event, "SERF_SELF_NAME=" + t.Node, "SERF_SELF_ROLE=" + s.Tags["role"]}
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		env = append(env, "SERF_TAG_"+variable(name)+"="+s.Tags[name])
	}
	return env
}

// line is a member's: name, address, role and tags, with a tab between each. Tags of other hosts are serf's own.
func (s Serf) line(m member, self string) string {
	host, _, err := net.SplitHostPort(m.Addr)
	if err != nil {
		host = m.Addr
	}
	role, tags := "", ""
	if m.Name == self {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
			pairs = append(pairs, name+"="+s.Tags[name])
		}
		role, tags = s.Tags["role"], strings.Join(pairs, ",")
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\n", escaped(m.Name), host, escaped(role), escaped(tags))
}

// escaped keeps a value in its column, as serf does.
func escaped(s string) string { return strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(s) }

// variable is the name of a tag as serf writes it.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// payload is a user event's: serf ends one that is not empty with a newline.
func payload(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text + "\n")
}
