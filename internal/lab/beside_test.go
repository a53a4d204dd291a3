package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	secrets "github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// TestBesideKeepalived kills all processes on the leader's host, and takes the time until a hook of another host says
// that it leads: of our agents with their defaults, and of keepalived that sends an advertisement every 10 ms, in
// rounds that alternate on one machine. Both run the same hook, a printf of a shell.
func TestBesideKeepalived(t *testing.T) {
	if os.Getenv("BULLY_FIGURES") == "" {
		t.Skip("skipped: it takes minutes of a quiet machine; make beside runs it")
	}
	if err := mayUseNamespaces(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	keepalived, err := exec.LookPath("keepalived")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("TMPDIR", shortDir(t))
	binary := buildAgent(t)
	lan, hosts, err := openLAN(10, netlab.Fine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lan.Close)
	secret := filepath.Join(t.TempDir(), keyFile)
	if err := os.WriteFile(secret, secrets.Ring{secrets.Generate(time.Now(), nil)}.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	ours := newRival(t, "bully-agent", hosts[:5], func(h *rivalHost, hook string) []string {
		return []string{binary, "run", "--cluster", "beside", "--name", h.name, "--priority", strconv.Itoa(100 + h.number),
			"--bind", hostAddr(h.number).String(), "--join", hostAddr(1).String() + "," + hostAddr(2).String(),
			"--state-dir", filepath.Join(h.dir, "state"), "--socket", filepath.Join(h.dir, "sock"), "--on-become-leader", hook, "--key", secret}
	})
	theirs := newRival(t, "keepalived", hosts[5:], func(h *rivalHost, hook string) []string {
		script := filepath.Join(h.dir, "master")
		conf := filepath.Join(h.dir, "conf")
		text := fmt.Sprintf(`global_defs {
	vrrp_version 3
	enable_script_security
	script_user root
}
vrrp_instance lab {
	state BACKUP
	interface %s
	virtual_router_id 51
	priority %d
	advert_int 0.01
	virtual_ipaddress {
		10.77.0.200/24
	}
	notify_master %s
}
`, netlab.Interface, 100+h.number, script)
		mustWriteFile(t, script, "#!/bin/sh\n"+hook+"\n", 0o700)
		mustWriteFile(t, conf, text, 0o600)
		return []string{keepalived, "--dont-fork", "--vrrp", "--use-file", conf, "--pid", filepath.Join(h.dir, "pid"),
			"--vrrp_pid", filepath.Join(h.dir, "vrrp.pid"), "--log-console"}
	})
	for range figuresRepeat {
		ours.round()
		theirs.round()
	}
	fmt.Printf("%-24s %8s %8s %8s %8s  (%d rounds)\n", "all killed, 5 hosts", "p50", "p95", "min", "max", figuresRepeat)
	for _, r := range []*rival{ours, theirs} {
		slices.Sort(r.took)
		ms := func(q float64) string {
			return fmt.Sprintf("%.1f", float64(r.took[int(q*float64(len(r.took)-1))].Microseconds())/1000)
		}
		fmt.Printf("%-24s %8s %8s %8s %8s  ms\n", r.name, ms(0.5), ms(0.95), ms(0), ms(1))
	}
}

// rival is five hosts of a LAN with a program that elects one.
type rival struct {
	t     *testing.T
	name  string
	hosts []*rivalHost
	lines chan string // a hook's: the host that leads now
	spawn *spawner
	took  []time.Duration
}

type rivalHost struct {
	number int
	name   string
	dir    string
	args   []string
	host   *netlab.Host
}

func newRival(t *testing.T, name string, hosts []*netlab.Host, command func(h *rivalHost, hook string) []string) *rival {
	t.Helper()
	r := &rival{t: t, name: name, lines: make(chan string, 100), spawn: newSpawner()}
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, on := range hosts {
		h := &rivalHost{number: i + 1, name: nodeName(i + 1), host: on}
		h.dir = filepath.Join(dir, h.name)
		if err := os.Mkdir(h.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h.args = command(h, fmt.Sprintf(`printf '%%s\n' %s 1<> %s`, h.name, path))
		r.hosts = append(r.hosts, h)
	}
	t.Cleanup(func() {
		for _, h := range r.hosts {
			h.host.KillAll()
		}
		r.spawn.close()
		fifo.Close()
	})
	go func() {
		for lines := bufio.NewScanner(fifo); lines.Scan(); {
			r.lines <- lines.Text()
		}
	}()
	for _, h := range r.hosts {
		r.start(h)
	}
	r.await(r.hosts[len(r.hosts)-1])
	return r
}

// start starts the program on a host, with its words in a file.
func (r *rival) start(h *rivalHost) {
	r.t.Helper()
	for _, name := range []string{"pid", "vrrp.pid"} { // keepalived does not start beside what looks like another
		_ = os.Remove(filepath.Join(h.dir, name))
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(h.args[0], h.args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, environment()
	if err := r.spawn.start(cmd, h.host); err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // killed, as it is to be
}

// await waits until that host leads.
func (r *rival) await(h *rivalHost) {
	r.t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case name := <-r.lines:
			if name == h.name {
				return
			}
		case <-late:
			log, _ := os.ReadFile(filepath.Join(h.dir, "log"))
			r.t.Fatalf("%s: %s does not lead:\n%s", r.name, h.name, log)
		}
	}
}

// round kills the best host's processes and takes the time until another leads; then the best comes back and leads.
func (r *rival) round() {
	r.t.Helper()
	best := r.hosts[len(r.hosts)-1]
	time.Sleep(500 * time.Millisecond) // all of them know by then who leads
	for len(r.lines) > 0 {
		<-r.lines
	}
	began := time.Now()
	best.host.KillAll()
	select {
	case name := <-r.lines:
		r.took = append(r.took, time.Since(began))
		if name == best.name {
			r.t.Errorf("%s: the dead host leads", r.name)
		}
	case <-time.After(10 * time.Second):
		r.t.Fatalf("%s: nobody took over", r.name)
	}
	r.start(best)
	r.await(best)
}

func mustWriteFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
