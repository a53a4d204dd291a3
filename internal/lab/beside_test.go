package lab

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// TestBeside takes the time from a fault of the leader's host until a hook of another says that it leads: of our agents
// and of what people use instead, five hosts each, in rounds that take turns on one machine. All run the same hook, a
// printf of a shell. Two faults: all processes of the host killed at once; its cable cut without a word.
// BULLY_TIMES names the file that docs/failover.svg is drawn from, BULLY_ROUNDS how many rounds of each fault, BULLY_OLD another binary of ours:
// then that one takes its turns too, and the programs that take seconds do not.
func TestBeside(t *testing.T) {
	if os.Getenv("BULLY_FIGURES") == "" {
		t.Skip("skipped: it takes a quarter of an hour of a quiet machine; make beside runs it")
	}
	if err := mayUseNamespaces(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("TMPDIR", shortDir(t))
	all := programs(t)
	lan, hosts, err := openLAN(besideHosts*len(all), netlab.Fine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lan.Close)
	var rivals []*rival
	for i, p := range all {
		if _, err := exec.LookPath(p.needs); err != nil {
			fmt.Printf("%-28s skipped: %v\n", p.name, err)
			continue
		}
		rivals = append(rivals, newRival(t, p, hosts, i*besideHosts))
	}
	rounds := besideRounds(t)
	for _, f := range besideFaults {
		for range rounds {
			for _, r := range rivals {
				r.round(f)
			}
		}
	}
	fmt.Printf("%-28s %-5s %9s %9s %9s %9s  (%d rounds)\n", "five hosts", "fault", "p50", "p95", "min", "max", rounds)
	for _, f := range besideFaults {
		for _, r := range rivals {
			took := r.took[f]
			slices.Sort(took)
			fmt.Printf("%-28s %-5s %9s %9s %9s %9s  ms\n", r.name, f, quantile(took, 0.5), quantile(took, 0.95), quantile(took, 0), quantile(took, 1))
		}
	}
	if file := os.Getenv("BULLY_TIMES"); file != "" {
		mustWriteFile(t, file, besideTimes(rivals, rounds), 0o644)
	}
}

// besideTimes is what internal/test/pictures reads and draws; what was taken is sorted.
func besideTimes(rivals []*rival, rounds int) string {
	text := "# Milliseconds until another host leads: least, median and longest of the rounds, by fault and program. make beside measures them.\n" +
		fmt.Sprintf("rounds %d\n", rounds)
	for _, r := range rivals {
		for _, f := range besideFaults {
			took := r.took[f]
			text += fmt.Sprintf("%-4s %8s %8s %8s  %s\n", f, quantile(took, 0), quantile(took, 0.5), quantile(took, 1), r.name)
		}
	}
	return text
}

func besideRounds(t *testing.T) int {
	t.Helper()
	said := os.Getenv("BULLY_ROUNDS")
	if said == "" {
		return 20
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		t.Fatalf("BULLY_ROUNDS=%s, expected a number of rounds", said)
	}
	return n
}

type fault string

const (
	kill fault = "kill" // all processes of the host, at once
	cut  fault = "cut"  // its cable, which keeps its carrier
)

var besideFaults = []fault{kill, cut}

// quantile gives milliseconds with one decimal, of what is sorted.
func quantile(sorted []time.Duration, q float64) string {
	return fmt.Sprintf("%.1f", float64(sorted[int(q*float64(len(sorted)-1))].Microseconds())/1000)
}

// rival is five hosts of the LAN with a program that elects one.
type rival struct {
	program
	t     *testing.T
	hosts []*rivalHost
	lines chan string // of hooks: a host that leads now
	leads string      // the host that has said so last
	spawn *spawner
	took  map[fault][]time.Duration
}

type rivalHost struct {
	number int // from 1
	name   string
	addrs  []netip.Addr // of all five
	dir    string
	args   []string
	host   *netlab.Host
}

const besideHosts = 5

// newRival starts the program on five hosts of the LAN, those behind the first so many.
func newRival(t *testing.T, p program, hosts []*netlab.Host, first int) *rival {
	t.Helper()
	r := &rival{program: p, t: t, lines: make(chan string, 1000), spawn: newSpawner(), took: map[fault][]time.Duration{}}
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []netip.Addr
	for i := range besideHosts {
		addrs = append(addrs, hostAddr(first+i+1))
	}
	for i := range besideHosts {
		h := &rivalHost{number: i + 1, name: nodeName(i + 1), addrs: addrs, host: hosts[first+i]}
		h.dir = filepath.Join(dir, h.name)
		if err := os.Mkdir(h.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h.args = p.command(h, fmt.Sprintf(`printf '%%s\n' %s 1<> %s`, h.name, path))
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
	// The best first, and alone for a while: some programs have whoever starts first lead for a moment.
	r.start(r.hosts[besideHosts-1])
	time.Sleep(p.calm)
	for _, h := range r.hosts[:besideHosts-1] {
		r.start(h)
	}
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

// settle gives the host that leads, once it has for as long as the program needs to make up its mind: some have several lead
// for a moment on a busy machine, and then the best, which has not ceased to.
func (r *rival) settle() *rivalHost {
	r.t.Helper()
	best := r.hosts[besideHosts-1]
	for late := time.After(time.Minute); ; {
		select {
		case name := <-r.lines:
			if r.stays || r.leads != best.name {
				r.leads = name
			}
			continue
		case <-time.After(r.calm):
		case <-late:
			log, _ := os.ReadFile(filepath.Join(best.dir, "log"))
			r.t.Fatalf("%s: %q leads, and is not to:\n%s", r.name, r.leads, log)
		}
		if i := slices.IndexFunc(r.hosts, func(h *rivalHost) bool { return h.name == r.leads }); i >= 0 && (r.stays || r.leads == best.name) {
			return r.hosts[i]
		}
	}
}

// round does it to the leader's host, and takes the time until another leads. Then the host comes back, without what
// it was: its processes start anew.
func (r *rival) round(f fault) {
	r.t.Helper()
	h := r.settle()
	began := time.Now()
	switch f {
	case kill:
		h.host.KillAll()
	case cut:
		if err := h.host.Cut(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.took[f] = append(r.took[f], r.next(h).Sub(began))
	if f == cut {
		h.host.KillAll()
		if err := h.host.Plug(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.start(h)
}

// next waits until a host other than h leads.
func (r *rival) next(h *rivalHost) time.Time {
	r.t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case name := <-r.lines:
			if r.leads = name; name != h.name {
				return time.Now()
			}
		case <-late:
			r.t.Fatalf("%s: nobody took over from %s", r.name, h.name)
		}
	}
}

func mustWriteFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
