package systemd

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Wherever the unit gives a right, the process that reads the network gives it up, as a user that is made; and a keeper that
// has died, after which there is no other, is made up for at once.
func TestUnitGivesUpRights(t *testing.T) {
	for _, name := range []string{"bully-agent.service", "bully-agent@.service", "vip.conf", "root-hooks.conf"} {
		lines := directives(read(t, name))
		has := slices.ContainsFunc(lines, func(line string) bool {
			key, value, _ := strings.Cut(line, "=")
			return key == "CapabilityBoundingSet" && value != "" || key == "AmbientCapabilities" && value != "" || line == "User=root"
		})
		for _, line := range []string{"Environment=BULLY_USER=bully-agent", "RestartSec=100ms"} {
			if gives := slices.Contains(lines, line); gives != has {
				t.Errorf("%s: rights %t, and %s %t", name, has, line, gives)
			}
		}
	}
	if !regexp.MustCompile(`(?m)^u bully-agent `).MatchString(read(t, "bully-agent.sysusers")) {
		t.Error("the user is not made")
	}
}
