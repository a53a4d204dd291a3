package cli

import (
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/unit"
)

// An agent that does not answer may be another's whom the caller cannot reach, or have a name that was left out.
func TestWhoElseRunsHere(t *testing.T) {
	for _, c := range []struct {
		isRoot  bool
		running []string
		unit    *unit.Unit
		want    string // hint
	}{
		{true, nil, nil, ""},
		{true, nil, &unit.Unit{Name: "bully-agent@web.service"}, "journalctl -u bully-agent@web -n 5 says how it ended; systemctl start bully-agent@web starts it"},
		{false, nil, nil, ""},
		{true, []string{""}, nil, ""},
		{false, []string{""}, nil, "an agent of the system's is here, and answers root and the group of its socket: sudo bully-agent"},
		{true, []string{"db", "web"}, &unit.Unit{Name: "bully-agent.service"}, "there is an agent of instance db or web: name it, bully-agent -i db"},
		{true, []string{"", "web"}, nil, "there is an agent of instance web: name it, bully-agent -i web"},
		{false, []string{"web"}, nil, "there is an agent of instance web: name it, bully-agent -i web; the system's agents answer root and the group of their socket: sudo bully-agent -i web"},
	} {
		err := withOthers(control.ErrUnreachable, c.isRoot, c.running, c.unit)
		if _, hint, _ := strings.Cut(err.Error(), "; hint: "); hint != c.want || exitCode(err) != exitUnreachable {
			t.Errorf("root %t, running %q: hint %q, exit code %d, want %q", c.isRoot, c.running, hint, exitCode(err), c.want)
		}
	}
}
