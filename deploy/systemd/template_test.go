package systemd

import (
	"slices"
	"strings"
	"testing"
)

// The unit of an instance is the unit, except for what names the instance: nothing that is changed in one is forgotten in the
// other.
func TestTemplateIsTheUnit(t *testing.T) {
	perInstance := strings.NewReplacer(
		"Description=bully-agent,", "Description=bully-agent %i,",
		"Environment=", "Environment=BULLY_INSTANCE=%i ",
		"BULLY_STATE_DIR=/var/lib/bully-agent", "BULLY_STATE_DIR=/var/lib/bully-agent-%i",
		"BULLY_SOCKET=/run/bully-agent/", "BULLY_SOCKET=/run/bully-agent-%i/",
		"/etc/default/bully-agent", "/etc/default/bully-agent-%i",
		"StateDirectory=bully-agent", "StateDirectory=bully-agent-%i",
		"RuntimeDirectory=bully-agent", "RuntimeDirectory=bully-agent-%i")
	want, got := directives(perInstance.Replace(read(t, "bully-agent.service"))), directives(read(t, "bully-agent@.service"))
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the template has no %s", line)
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("the template has\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// directives are the lines of a unit without its comments.
func directives(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
