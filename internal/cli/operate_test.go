package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
)

// operated is an agent with something to say to each command for operators.
func operated(t *testing.T) *puppet {
	p := newPuppet(t)
	sight := control.Sight{Name: "beta", Status: "alive", Version: "v1.2.3", Source: "192.168.1.11", Knows: true, Heard: 3, PingsUs: true, MTU: 1500,
		Arrived: 3, Pinged: true}
	shut := sight
	shut.Name, shut.Version, shut.Knock = "gamma", "v1.2.4", "no answer"
	p.more = map[string]any{
		"/v1/explain":    alphaFollows(),
		"/v1/ok-to-stop": control.OKToStop{Text: "no: 1 of 3 voters would be left", Stay: 1, Of: 3, Need: 2},
		"/v1/doctor": control.Examination{Self: p.status.Self, Version: "v1.2.3", Profile: "lan", Proven: true, CanAsk: true, HeartbeatMS: 50, StopBudgetMS: 100,
			SyncMS: 3, TurnMS: 1, StateDir: "/var/lib/bully-agent", Scheduling: control.Scheduling{Policy: "realtime"}, MTU: 1500,
			Peers: []control.Sight{sight, shut}},
		"/v1/hooks":       []control.HookSetting{{Event: "become-leader", Shell: "true"}, {Event: "lose-leadership"}},
		"/v1/keys":        control.Keys{Insecure: true},
		"/v1/maintenance": nil,
	}
	return p
}

// What each command prints to a pipe, which is what NO_COLOR makes of it on a terminal, in colours, and as JSON.
func TestCommandsForOperatorsGolden(t *testing.T) {
	p := operated(t)
	p.status.Maintenance = &control.Maintenance{Reason: "kernel upgrade"}
	p.serve(t)
	if err := os.Chmod(p.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"doctor":          {[]string{"doctor"}, exitNo},
		"explain-command": {[]string{"explain"}, 0},
		"ok-to-stop":      {[]string{"ok-to-stop"}, exitRefused},
		"maintenance-on":  {[]string{"maintenance", "on", "--reason", "kernel upgrade"}, 0},
		"maintenance-off": {[]string{"maintenance", "off"}, 0},
	} {
		for form, isColoured := range map[string]bool{".txt": false, "-colour.txt": true, ".json": false} {
			args := append([]string{program}, c.args...)
			if form == ".json" {
				args = append(args, "--json")
			}
			t.Run(name+form, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				con := newConsole(nil, &stdout, &stderr)
				con.outColour = isColoured
				failure := newApp(con).Run(append(args, "--socket", p.socket))
				con.report(failure)
				if code := exitCode(failure); code != c.code || stderr.Len() > 0 {
					t.Errorf("exits %d, expected %d, and says %q", code, c.code, stderr.String())
				}
				if strings.Contains(stdout.String(), "\x1b") && !isColoured {
					t.Error("colours where there are none to be")
				}
				golden(t, name+form, strings.ReplaceAll(stdout.String(), p.socket, "SOCKET"))
			})
		}
	}
}
