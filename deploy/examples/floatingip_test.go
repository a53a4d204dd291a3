package examples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// cloud is a stand-in for Hetzner's API, with the floating IP 4711, and for the place at which servers ask who they are.
type cloud struct {
	t   *testing.T
	url string
	dir string // with the script, and what it needs

	mu      sync.Mutex
	server  int // that the address leads to
	assigns []int
	pending int // answers until an assignment is done
	busy    int // answers that are 503
	fails   bool
}

// servers are the numbers of hosts.
var servers = map[string]int{"alpha": 42, "beta": 43}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	tool(t, "curl")
	c := &cloud{t: t, server: 41}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /self/{host}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, servers[r.PathValue("host")]) })
	mux.HandleFunc("GET /v1/floating_ips/4711", c.allowed(c.address))
	mux.HandleFunc("POST /v1/floating_ips/4711/actions/assign", c.allowed(c.assign))
	mux.HandleFunc("GET /v1/actions/13", c.allowed(c.action))
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	c.url = api.URL
	c.dir = filepath.Dir(installed(t, "floating-ip", "/usr/local/bin", "/var/lib/bully-agent"))
	script := read(t, filepath.Join(c.dir, "floating-ip"))
	for place, ours := range map[string]string{"https://api.hetzner.cloud": c.url, "/etc/bully-agent/hetzner-token": filepath.Join(c.dir, "token"),
		"http://169.254.169.254/hetzner/v1/metadata/instance-id": c.url + "/self/$BULLY_NODE"} {
		if !strings.Contains(script, place) {
			t.Fatalf("the script does not say %s", place)
		}
		script = strings.ReplaceAll(script, place, ours)
	}
	write(t, filepath.Join(c.dir, "floating-ip"), script, 0o755)
	write(t, filepath.Join(c.dir, "token"), "Authorization: Bearer secret\n", 0o600)
	config := filepath.Join(c.dir, "agent.toml")
	write(t, config, strings.ReplaceAll(read(t, config), "expect = 3", ""), 0o600) // two hosts are enough here
	return c
}

// allowed answers those who have the token, unless the API is busy.
func (c *cloud) allowed(answer func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
			return
		case c.busy > 0:
			c.busy--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Method == http.MethodPost {
			var wish struct{ Server int }
			if err := json.NewDecoder(r.Body).Decode(&wish); err != nil || r.Header.Get("Content-Type") != "application/json" {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			c.assigns = append(c.assigns, wish.Server)
		}
		text, _ := json.MarshalIndent(answer(), "", "  ") // as theirs
		_, _ = w.Write(text)
	}
}

func (c *cloud) address() any {
	return map[string]any{"floating_ip": map[string]any{"id": 4711, "ip": "131.232.99.1", "server": c.server, "blocked": false,
		"home_location": map[string]any{"id": 1, "name": "fsn1"}, "labels": map[string]any{}}}
}

func (c *cloud) assign() any {
	c.pending = 2
	return c.action()
}

func (c *cloud) action() any {
	status := "running"
	if c.pending--; c.pending < 0 && c.fails {
		status = "error"
	} else if c.pending < 0 {
		status, c.server = "success", c.assigns[len(c.assigns)-1]
	}
	type resource struct {
		ID   int    `json:"id"`
		Type string `json:"type"`
	}
	return struct { // in their order
		Action any `json:"action"`
	}{struct {
		ID        int        `json:"id"`
		Command   string     `json:"command"`
		Status    string     `json:"status"`
		Resources []resource `json:"resources"`
	}{13, "assign_floating_ip", status, []resource{{42, "server"}, {4711, "floating_ip"}}}}
}

// hook runs the script on a host, in a leadership.
func (c *cloud) hook(host string, epoch int) (output string, code int) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.dir, "floating-ip"), "4711", filepath.Join(c.dir, "fence"))
	return outcome(c.t, cmd, environ(nil, "BULLY_NODE="+host, fmt.Sprintf("BULLY_EPOCH=%d", epoch), "BULLY_EPOCH_OWNER=0b6c7f52"))
}

// led says where the address leads to, and what was assigned.
func (c *cloud) led() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("to %d, assigned %v", c.server, c.assigns)
}

func (c *cloud) expect(want string) {
	c.t.Helper()
	if got := c.led(); got != want {
		c.t.Errorf("the address leads %s, expected %s", got, want)
	}
}

func TestFloatingIPIsAssignedOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for range 2 {
		if out, code := c.hook("alpha", 7); code != 0 || !strings.HasPrefix(out, "floating IP 4711 leads here") {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		c.expect("to 42, assigned [42]")
	}
}

// A leadership that is over takes nothing.
func TestFloatingIPRefusesAStaleLeader(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	if out, code := c.hook("beta", 8); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if out, code := c.hook("alpha", 7); code != 6 {
		t.Errorf("exit code %d, expected 6: refused\n%s", code, out)
	}
	c.expect("to 43, assigned [43]")
}

func TestFloatingIPFailsVisibly(t *testing.T) {
	t.Parallel()
	t.Run("busy", func(t *testing.T) {
		c := newCloud(t)
		c.busy = 1
		if out, code := c.hook("alpha", 7); code != 0 {
			t.Errorf("exit code %d\n%s", code, out)
		}
		c.expect("to 42, assigned [42]")
	})
	t.Run("refused", func(t *testing.T) {
		c := newCloud(t)
		c.fails = true
		if out, code := c.hook("alpha", 7); code != 1 || !strings.Contains(out, "floating IP 4711 was not assigned") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		c.expect("to 41, assigned [42]")
	})
	t.Run("wrong token", func(t *testing.T) {
		c := newCloud(t)
		write(t, filepath.Join(c.dir, "token"), "Authorization: Bearer wrong\n", 0o600)
		if out, code := c.hook("alpha", 7); code == 0 || !strings.Contains(out, "401") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		c.expect("to 41, assigned []")
	})
}

// The example as a whole: the address follows the leader from one host to another.
func TestFloatingIPFollowsTheLeader(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	agents := newAgents(t, filepath.Join(c.dir, "agent.toml"), nil, "alpha", "beta")
	alpha, beta := agents[0], agents[1]
	alpha.start()
	alpha.leads()
	c.expect("to 42, assigned [42]")
	beta.start()
	if out, code := beta.cli("wait", "--for", "leader", "--timeout", patience.String()); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	alpha.stop()
	beta.leads()
	c.expect("to 43, assigned [42 43]")
}
