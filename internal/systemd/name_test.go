package systemd

import (
	"strings"
	"testing"
)

func TestParseUnit(t *testing.T) {
	for _, good := range []string{"haproxy.service", "bully-leader.target", "getty@tty1.service", "a.b.service", `dev-disk-by\x2dlabel.mount`, "x:y_z.socket"} {
		if err := ParseUnit(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                                    `no unit is named`,
		"haproxy":                             `does not end with a type of unit`,
		"haproxy.conf":                        `does not end with a type of unit`,
		"system.slice":                        `does not end with a type of unit`,
		"/etc/systemd/system/haproxy.service": `is a path`,
		"../haproxy.service":                  `is a path`,
		"getty@.service":                      `is a template: expected an instance of it, such as "getty@main.service"`,
		"@tty1.service":                       `is no name of a unit`,
		".service":                            `is no name of a unit`,
		"ha proxy.service":                    `is no name of a unit`,
		"haproxy\n.service":                   `is no name of a unit`,
		"hapröxy.service":                     `is no name of a unit`,
		"bully-agent.service":                 `is an agent: expected a unit that an agent starts and stops`,
		"bully-agent@web.service":             `is an agent`,
		strings.Repeat("x", 250) + ".service": `at most 255`,
	} {
		err := ParseUnit(bad)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		} else if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%q: more than one line", bad)
		}
	}
}
