package docs

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// A lanPlan is what the hosts of a page's section are before its first command.
type lanPlan struct {
	section string   // the heading
	hosts   []string // in the order of their addresses, from 192.168.1.11
	running string   // the agent.toml of hosts whose agents run already; empty: the section writes and starts all
	broken  string   // the host whose poweroff is its last: another machine takes its place
}

// home is the cluster of a page whose hosts are there already.
const home = `cluster = "home-lab"
[network]
join = ["alpha", "beta", "gamma"]
`

// onLAN are the sections whose commands need hosts of their own: addresses that move, files in /etc, a name to change.
var onLAN = map[string][]lanPlan{
	"docs/operating.md": {{section: "Replace, rename or move a host", hosts: names, running: home, broken: "gamma"}},
	"docs/switching.md": {{section: "An active/active pair", hosts: names[:2]}},
}

// What a page shows of addresses and of files in /etc is what happens there: each host is a network namespace whose /etc,
// /run and /var/lib are its own.
func TestShownOnLAN(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	for _, tool := range []string{"ip", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: " + err.Error())
		}
	}
	t.Parallel()
	binary := build(t)
	for path, plans := range onLAN {
		for _, plan := range plans {
			t.Run(filepath.Base(path)+"/"+plan.section, func(t *testing.T) {
				t.Parallel()
				part := pageAt(t, path).under(plan.section)
				l := newLAN(t, binary, plan)
				l.writeFiles(part)
				seen := 0
				for _, b := range part.blocks() {
					if b.language != "console" {
						continue
					}
					for _, s := range steps(t, path, b, prompt) {
						seen++
						l.play(s)
					}
				}
				if seen < 5 {
					t.Errorf("only %d commands were found", seen)
				}
			})
		}
	}
}

// lan is a network of hosts.
type lan struct {
	t      *testing.T
	binary string
	dir    string
	plan   lanPlan
	hosts  map[string]*lanHost
}

// A lanHost is one of them: /etc, /run and /var/lib are its own directories.
type lanHost struct {
	*netlab.Host
	dir      string
	addr     string               // that it has when it is switched on
	hostname string               // hostnamectl changes it
	agents   map[string]*exec.Cmd // by unit
	enabled  []string             // units that start when it is switched on
	isOff    bool
}

// lans numbers the networks, whose names must differ.
var lans atomic.Int32

func newLAN(t *testing.T, binary string, plan lanPlan) *lan {
	t.Helper()
	net, err := netlab.New(fmt.Sprintf("bd%d-%d", os.Getpid(), lans.Add(1)), netlab.Fine)
	if err != nil {
		t.Skipf("skipped: no namespaces or bridges can be made here: %v", err)
	}
	t.Cleanup(net.Close)
	dir, err := os.MkdirTemp("", "docs") // not the test's own, whose name is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l := &lan{t: t, binary: binary, dir: dir, plan: plan, hosts: map[string]*lanHost{}}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret := key.Ring{key.Generate(time.Now(), nil)}.Format()
	table := "127.0.0.1 localhost\n"
	for i, name := range plan.hosts {
		table += fmt.Sprintf("192.168.1.%d %s\n", 11+i, name)
	}
	for i, name := range plan.hosts {
		addr := fmt.Sprintf("192.168.1.%d/24", 11+i)
		host, err := net.AddHost(name, netip.MustParsePrefix(addr))
		if err != nil {
			t.Skipf("skipped: no host can be added here: %v", err)
		}
		h := &lanHost{Host: host, dir: filepath.Join(dir, name), addr: addr, hostname: name, agents: map[string]*exec.Cmd{}}
		l.hosts[name] = h
		t.Cleanup(func() { l.end(h) })
		l.write(name, "/etc/hosts", table)
		l.write(name, "/etc/nsswitch.conf", "hosts: files\n")
		l.write(name, "/etc/passwd", "root:x:0:0::/root:/bin/sh\nbully-agent:x:0:0::/:/bin/false\n") // here the service is root's
		l.write(name, "/run/none", "")
		l.write(name, "/var/lib/none", "")
		l.write(name, "/etc/bully-agent/none", "")
		if plan.running == "" {
			continue
		}
		l.write(name, "/etc/bully-agent/key", string(secret))
		l.write(name, "/etc/bully-agent/agent.toml", plan.running)
		l.start(name, "bully-agent")
		l.await(plan.hosts[0], "bully-agent wait --timeout 15s --for me")
		l.await(plan.hosts[0], fmt.Sprintf("bully-agent wait --timeout 15s --for members=%d", i+1))
	}
	return l
}

// writeFiles puts the files of a section where their first lines say: "# /etc/keepalived/keepalived.conf on alpha".
func (l *lan) writeFiles(p page) {
	place := regexp.MustCompile(`^[#!] (/etc/\S+) on (\w+)\n`)
	for _, b := range p.blocks() {
		if m := place.FindStringSubmatch(b.text); m != nil {
			l.write(m[2], m[1], b.text)
		}
	}
}

func (l *lan) write(host, path, text string) {
	l.t.Helper()
	path = filepath.Join(l.dir, host, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// play does what a step says, and holds what it prints against what is shown. A host's kernel has no systemd and no name
// service to change: commands to those are done here.
func (l *lan) play(s step) {
	l.t.Helper()
	l.switchOn(s.host)
	words := strings.Fields(s.line)
	switch words[0] {
	case "systemctl":
		l.systemctl(s.host, words[1:])
		return
	case "hostnamectl":
		l.hosts[s.host].hostname = words[len(words)-1]
		return
	case "scp":
		l.copy(s.host, words[1:])
		return
	case "install":
		l.isDropIn(words)
		return
	case "poweroff":
		l.powerOff(s.host)
		return
	}
	var said string
	for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		said, _ = l.run(s.host, s.line)
		if asShown(s.prints, strings.Split(strings.TrimSuffix(said, "\n"), "\n")) {
			return
		}
		if !repeated.MatchString(s.line) {
			break
		}
	}
	l.t.Fatalf("%s# %s\nprints\n%s\nand is shown to print\n%s", s.host, s.line, said, strings.Join(s.prints, "\n"))
}

// repeated are the commands that change nothing. They are run until they print what is shown.
var repeated = regexp.MustCompile(`^(bully-agent (-i \w+ )?(members|leader|status|events|history|explain|doctor|wait)|ip -4 -o|ping) ?`)

// systemctl does what the real one would.
func (l *lan) systemctl(host string, words []string) {
	l.t.Helper()
	h := l.hosts[host]
	line := strings.Join(words, " ")
	units := slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return !strings.HasPrefix(word, "bully-agent") })
	for _, unit := range units {
		switch {
		case words[0] == "enable" && words[1] == "--now":
			h.enabled = append(h.enabled, unit)
			l.start(host, unit)
		case words[0] == "start":
			l.start(host, unit)
		case words[0] == "stop":
			l.stop(h, unit, syscall.SIGTERM)
		case words[0] == "restart":
			l.stop(h, unit, syscall.SIGTERM)
			l.start(host, unit)
		default:
			l.t.Fatalf("%s: systemctl %s: no command of these hosts", host, line)
		}
	}
	if len(units) == 0 && line != "daemon-reload" && line != "disable --now keepalived" {
		l.t.Fatalf("%s: systemctl %s: no command of these hosts", host, line)
	}
}

// powerOff is the end of a machine, without a word: its cable first.
func (l *lan) powerOff(host string) {
	l.t.Helper()
	h := l.hosts[host]
	if err := h.Cut(); err != nil {
		l.t.Fatal(err)
	}
	l.end(h)
	h.isOff = true
}

// switchOn starts a machine that is off, as somebody does who types there: with all that it had, or another in its place.
func (l *lan) switchOn(host string) {
	l.t.Helper()
	h := l.hosts[host]
	if !h.isOff {
		return
	}
	h.isOff = false
	if host == l.plan.broken {
		h.enabled = nil
		for _, dir := range []string{"/var/lib", "/run", "/etc/bully-agent"} {
			if err := os.RemoveAll(filepath.Join(h.dir, dir)); err != nil {
				l.t.Fatal(err)
			}
			l.write(host, filepath.Join(dir, "none"), "")
		}
	}
	if out, err := l.run(host, "ip address flush dev eth0 && ip address add "+h.addr+" dev eth0"); err != nil {
		l.t.Fatalf("%s: %v: %s", host, err, out)
	}
	if err := h.Plug(); err != nil {
		l.t.Fatal(err)
	}
	for _, unit := range h.enabled {
		l.start(host, unit)
	}
}

// copy is scp, from another host's files.
func (l *lan) copy(host string, words []string) {
	l.t.Helper()
	to := words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		if strings.HasPrefix(word, "-") {
			continue
		}
		from, path, _ := strings.Cut(word, ":")
		text, err := os.ReadFile(filepath.Join(l.dir, from, path))
		if err != nil {
			l.t.Fatal(err)
		}
		place := to
		if strings.HasSuffix(to, "/") {
			place = filepath.Join(to, filepath.Base(path))
		}
		l.write(host, place, string(text))
	}
}

// isDropIn holds that what a page installs is what the packages have there.
func (l *lan) isDropIn(words []string) {
	l.t.Helper()
	from := words[len(words)-2]
	name, isOurs := strings.CutPrefix(from, "/usr/share/doc/bully-agent/")
	if _, err := os.Stat(filepath.Join(root, "deploy", name)); !isOurs || err != nil {
		l.t.Fatalf("%s is in no package (%v)", from, err)
	}
}

// start starts the agent of a unit.
func (l *lan) start(host, unit string) {
	l.t.Helper()
	h := l.hosts[host]
	line := "exec bully-agent run"
	if _, instance, isOne := strings.Cut(unit, "@"); isOne {
		line = "exec bully-agent -i " + instance + " run"
	}
	agent := l.command(context.Background(), h, line)
	log, err := os.OpenFile(filepath.Join(h.dir, unit+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer log.Close()
	agent.Stdout, agent.Stderr = log, log
	agent.Env = append(agent.Env, "BULLY_LEASE=2s") // a machine that does other things too may starve an agent for a while
	if err := h.Within(agent.Start); err != nil {
		l.t.Fatal(err)
	}
	h.agents[unit] = agent
}

// command is a line that a host's shell runs. Its mounts and its host name are its own.
func (l *lan) command(ctx context.Context, h *lanHost, line string) *exec.Cmd {
	const script = `set -e
for d in etc run var/lib; do mount --bind "$1/$d" /$d; done
echo "$2" >/proc/sys/kernel/hostname
set +e
eval "$3"`
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", h.dir, h.hostname, line)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + filepath.Dir(l.binary) + ":" + os.Getenv("PATH"), "HOME=/root", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	return cmd
}

func (l *lan) run(host, line string) (said string, err error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h := l.hosts[host]
	var out bytes.Buffer
	cmd := l.command(ctx, h, line)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := h.Within(cmd.Start); err != nil {
		l.t.Fatal(err)
	}
	err = cmd.Wait()
	return out.String(), err
}

func (l *lan) await(host, line string) {
	l.t.Helper()
	var said string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if said, err = l.run(host, line); err == nil {
			return
		}
	}
	log, _ := os.ReadFile(filepath.Join(l.dir, host, "bully-agent.log"))
	l.t.Fatalf("%s: %s: %s\n%s", host, line, said, log)
}

func (l *lan) stop(h *lanHost, unit string, signal syscall.Signal) {
	l.t.Helper()
	agent := h.agents[unit]
	if agent == nil {
		l.t.Fatalf("%s does not run", unit)
	}
	_ = agent.Process.Signal(signal) // it may have ended, and Wait says so
	_ = agent.Wait()
	delete(h.agents, unit)
}

// end kills what runs on a host.
func (l *lan) end(h *lanHost) {
	h.KillAll()
	for unit, agent := range h.agents {
		_ = agent.Wait()
		delete(h.agents, unit)
	}
	for end := time.Now().Add(patience); len(h.Processes()) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		h.KillAll()
	}
}
