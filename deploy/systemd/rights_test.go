package systemd

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Wherever the unit starts as root, the process that reads the network gives that up, as a user
// that is made.
func TestUnitGivesUpRoot(t *testing.T) {
	for _, name := range []string{"bully-agent.service", "vip.conf", "root-hooks.conf"} {
		lines := strings.Split(read(t, name), "\n")
		isRoot := slices.Contains(lines, "User=root")
		if gives := slices.Contains(lines, "Environment=BULLY_USER=bully-agent"); gives != isRoot {
			t.Errorf("%s: root %t, given up %t", name, isRoot, gives)
		}
	}
	if !regexp.MustCompile(`(?m)^u bully-agent `).MatchString(read(t, "bully-agent.sysusers")) {
		t.Error("the user is not made")
	}
}
