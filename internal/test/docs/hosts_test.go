package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/test/loopback"
)

// hosts are what the pages call alpha, beta and gamma: three agents on loopback, with hooks that log.
type hosts struct {
	t      *testing.T
	dir    string
	binary string
	addrs  map[string]string
	web    map[string]string    // where the network asks; empty: nowhere
	agents map[string]*exec.Cmd // that run
	plan   plan
}

// A plan says what the hosts of a page are.
type plan struct {
	leader   string // starts first, so that it leads; the others are started one by one
	favoured string // has priority 200, if any
	preempt  string // empty: the default
	expect   int
	config   string            // the text of agent.toml
	http     bool              // the network may ask them
	programs map[string]string // that the page shows, by name
}

var (
	names  = []string{"alpha", "beta", "gamma"}
	others = []string{"delta", "epsilon"} // which a page starts
)

// patience is how long something may take on a machine that does other things too.
const patience = 20 * time.Second

func startHosts(t *testing.T, binary string, p plan) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("", "docs") // not the test's own, whose name is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{t: t, dir: dir, binary: binary, addrs: map[string]string{}, web: map[string]string{}, agents: map[string]*exec.Cmd{}, plan: p}
	t.Cleanup(h.end)
	if err := os.WriteFile(h.key(), key.Ring{key.Generate(time.Now(), nil)}.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	h.write("logger", "#!/bin/sh\n") // the one of the hooks, which is not everywhere
	for _, name := range slices.Concat(names, others) {
		h.addrs[name] = loopback.Addr().String()
		h.write(name+".toml", p.settings())
		if p.http {
			h.web[name] = loopback.Addr().String()
		}
	}
	for name, text := range p.programs {
		h.write(name, h.here(p.leader, text))
	}
	h.start(p.leader)
	if p.expect == 0 {
		h.await(p.leader, "me")
	}
	members := 1
	for _, name := range names {
		if name == p.leader {
			continue
		}
		members++
		h.start(name)
		h.await(p.leader, fmt.Sprintf("members=%d", members))
	}
	for _, name := range names {
		h.await(name, "leader")
	}
	return h
}

// settings are those of a host's file.
func (p plan) settings() string {
	if p.expect == 0 {
		return p.config
	}
	return fmt.Sprintf("%s[election]\nexpect = %d\n", p.config, p.expect)
}

// key is the file that all hosts have.
func (h *hosts) key() string { return filepath.Join(h.dir, "key") }

func (h *hosts) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) start(name string) {
	h.t.Helper()
	args := []string{"run", "--cluster", "home-lab", "--name", name, "--bind", h.addrs[name],
		"--join", strings.Join([]string{h.addrs["alpha"], h.addrs["beta"], h.addrs["gamma"]}, ","),
		"--state-dir", filepath.Join(h.dir, name),
		"--on-become-leader", `logger "leader of epoch $BULLY_EPOCH"`, "--on-lose-leadership", `logger "no longer leader"`}
	if name == h.plan.favoured {
		args = append(args, "--priority", "200")
	}
	if h.plan.preempt != "" {
		args = append(args, "--preempt", h.plan.preempt)
	}
	if h.plan.http {
		args = append(args, "--http-listen", h.web[name])
	}
	agent := exec.Command(h.binary, args...)
	agent.Env = append(h.environ(name), "BULLY_LEASE=900ms") // more than twice the default: this machine does other things too
	log, err := os.OpenFile(h.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.agents[name] = agent
}

// log is where a host's agent and its hooks write.
func (h *hosts) log(name string) string { return filepath.Join(h.dir, name+".log") }

// environ is that of a host's shells and of its agent: nothing of this machine's settings.
func (h *hosts) environ(name string) []string {
	return []string{"PATH=" + h.dir + ":" + filepath.Dir(h.binary) + ":" + os.Getenv("PATH"), "HOME=" + h.dir, "TZ=UTC",
		"BULLY_SOCKET=" + filepath.Join(h.dir, name+".sock"), "BULLY_CONFIG=" + filepath.Join(h.dir, name+".toml"),
		"BULLY_KEY=" + h.key()}
}

func (h *hosts) await(name, what string) {
	h.t.Helper()
	var said string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // until it listens
		var err error
		if said, err = h.run(name, "bully-agent wait --timeout 15s --for "+what); err == nil {
			return
		}
	}
	h.t.Fatalf("%s: wait --for %s: %s", name, what, said)
}

// run has a shell of a host run a command line.
func (h *hosts) run(name, line string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", h.here(name, line))
	command.Dir = h.dir
	command.Env = h.environ(name)
	command.WaitDelay = time.Second // what the killed shell has started may go on
	out, err := command.CombinedOutput()
	return string(out), err
}

// here has a text name what these hosts have: the socket and the file of the one that it is for, and where the network asks.
func (h *hosts) here(name, text string) string {
	text = strings.ReplaceAll(text, "/run/bully-agent/agent.sock", filepath.Join(h.dir, name+".sock"))
	text = strings.ReplaceAll(text, "/etc/bully-agent/agent.toml", filepath.Join(h.dir, name+".toml"))
	for of, addr := range h.web {
		text = strings.ReplaceAll(text, "http://"+of+":7951", "http://"+addr)
	}
	return text
}

// systemctl does to a host's agent what the real one would, for the commands that the pages have.
func (h *hosts) systemctl(name, line string) {
	h.t.Helper()
	switch line {
	case "systemctl stop bully-agent":
		h.stop(name, syscall.SIGTERM)
	case "systemctl kill -s KILL bully-agent":
		h.stop(name, syscall.SIGKILL)
	case "systemctl start bully-agent":
		h.start(name)
	case "systemctl restart bully-agent":
		h.stop(name, syscall.SIGTERM)
		h.start(name)
	case "systemctl enable --now bully-agent": // for the first time, on a new machine
		if err := os.RemoveAll(filepath.Join(h.dir, name)); err != nil {
			h.t.Fatal(err)
		}
		h.start(name)
	default:
		h.t.Fatalf("%s: no command of these hosts", line)
	}
}

func (h *hosts) stop(name string, signal syscall.Signal) {
	h.t.Helper()
	agent := h.agents[name]
	if agent == nil {
		h.t.Fatalf("%s has no agent that could end", name)
	}
	_ = agent.Process.Signal(signal) // it may have ended, and Wait says so
	_ = agent.Wait()
	delete(h.agents, name)
}

func (h *hosts) end() {
	for _, agent := range h.agents {
		_ = agent.Process.Signal(syscall.SIGTERM) // cleanly: nothing of it is left then that writes into the directory
	}
	for _, agent := range h.agents {
		_ = agent.Wait()
	}
	if h.t.Failed() {
		for _, name := range slices.Concat(names, others) {
			text, _ := os.ReadFile(h.log(name)) // none of one that was never started
			h.t.Logf("the log of %s:\n%s", name, text)
		}
	}
	if err := os.RemoveAll(h.dir); err != nil {
		h.t.Error(err)
	}
}
