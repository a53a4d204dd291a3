package e2e

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// netnsConfig is where `ip netns exec NAME` finds files that it puts over those
// of /etc: /etc/netns/NAME/resolv.conf and so on.
const netnsConfig = "/etc/netns"

// lan is a switch with hosts. It is built by newLAN and removed with its test.
type lan struct {
	t       *testing.T
	net     *netlab.LAN
	number  byte // of this LAN in the test process; third byte of its addresses
	dir     string
	hosts   []*host
	journal *journal
	options []string // arguments of `run` that all hosts get
	env     []string // environment of all agents; timers have no flags
	other   string   // a program that runs as agent instead of the one under test; see program

	insecure bool          // no key is used: whoever joins is a member
	overlap  string        // why hosts may lead at the same time in this test; "": they may not
	guarded  bool          // the end of a leadership is that of its lose hook alone; see verdict.Rules
	unheld   bool          // but only of one that a command under hold acted for; see verdict.Rules
	room     time.Duration // its stop budget, if that is said to be enough for a busy machine
}

var lans atomic.Int32

// family is the Internet protocol that the hosts of a LAN speak.
type family int

const (
	ipv4 family = 4
	ipv6 family = 6
)

// newLAN builds a LAN of n hosts h1…hn that run no agent yet. Priorities are
// 10, 20, …: the last host is the best. Hosts join all others by address.
func newLAN(t *testing.T, n int, options ...string) *lan { return newLANOf(t, ipv4, n, options...) }

func newLANOf(t *testing.T, speaks family, n int, options ...string) *lan {
	t.Helper()
	needsLAN(t)
	number := lans.Add(1)
	l := &lan{t: t, number: byte(number), options: options}
	if rounds() == 1 { // else figures are taken, of the defaults
		l.env = append(l.env, "BULLY_LEASE=640ms") // five eighths of it are 400 ms (M39): the machine is busy with other tests, too
	}
	l.dir = filepath.Join(workDir, strconv.Itoa(int(number)))
	must(t, os.Mkdir(l.dir, 0o700))
	l.journal = newJournal(t, filepath.Join(l.dir, "hooks"))
	must(t, os.WriteFile(l.key(), key.Ring{key.Generate(time.Now(), nil)}.Format(), 0o600))
	var err error
	l.net, err = netlab.New(fmt.Sprintf("%s-%d", prefix(os.Getpid()), number), netlab.Fine)
	must(t, err)
	t.Cleanup(l.remove)
	for i := range n {
		l.hosts = append(l.hosts, newHost(l, speaks, i+1))
	}
	l.ip(l.net.Switch(), "addr add "+l.gateway().String()+"/24 dev "+netlab.Bridge)
	return l
}

// key is the file of the key that all hosts share.
func (l *lan) key() string { return filepath.Join(l.dir, "key") }

// trust is whom the agents of this LAN take for members: who has its key, or everybody.
func (l *lan) trust() []string {
	if l.insecure {
		return []string{"--insecure"}
	}
	return []string{"--key", l.key()}
}

// gateway is the switch's own address: where a test can be reached, or sends from.
func (l *lan) gateway() netip.Addr { return netip.AddrFrom4([4]byte{10, 78, l.number, 254}) }

// ip gives commands to iproute2 in a namespace.
func (l *lan) ip(ns netlab.Namespace, commands ...string) {
	l.t.Helper()
	cmd := exec.Command("ip", "-n", string(ns), "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("ip -n %s: %v: %s", ns, err, out)
	}
}

// nft gives rules to the packet filter of host h.
func (l *lan) nft(h *host, rules ...string) {
	l.t.Helper()
	cmd := h.command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(rules, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("nft on %s: %v: %s", h, err, out)
	}
}

// cut takes h off the switch without its noticing: the carrier stays.
func (l *lan) cut(h *host) {
	l.t.Helper()
	l.journal.note(h, isCut)
	must(l.t, h.net.Cut())
}

// unplug pulls h's cable: it loses its carrier.
func (l *lan) unplug(h *host) {
	l.t.Helper()
	l.journal.note(h, isCut)
	must(l.t, h.net.Unplug())
}

// plug ends what cut, unplug and split did to h.
func (l *lan) plug(h *host) {
	l.t.Helper()
	l.journal.note(h, isPlugged)
	must(l.t, h.net.Plug())
}

// split puts some hosts on a switch of their own.
func (l *lan) split(others ...*host) {
	l.t.Helper()
	for _, h := range others {
		l.journal.note(h, isSplit)
		must(l.t, h.net.Split())
	}
}

// hasRoomToLetGo gives lose hooks 400 ms when a leader loses its lease. The
// default of 100 ms is enough for a shell and a command or two, but not on a
// machine that is busy with other tests too: there the kernel may take as long
// to start a process.
//
// It is not enough for one that starves all that is ordinary, which the agents are
// not: what their keepers then say is believed, see verdict.Rules.
func (l *lan) hasRoomToLetGo() { l.hasStopBudget(400 * time.Millisecond) }

// hasStopBudget gives lose hooks so much, of which a keeper whose agent is silent has half. The
// lease is four times as long, so that the shortest that a leader asks for (M39) is, too; what is
// tested is the same.
func (l *lan) hasStopBudget(d time.Duration) {
	l.room = d
	l.env = append(l.env, "BULLY_LEASE="+(4*d).String(), "BULLY_STOP_BUDGET="+d.String())
}

// mayOverlap says why two hosts may lead at the same time in this test.
func (l *lan) mayOverlap(why string) { l.overlap = why }

// remove ends the agents, looks at what the hooks wrote, and takes the LAN down.
func (l *lan) remove() {
	for _, h := range l.hosts { // all at once: else one would still begin to lead in the last instant, and be killed before its hook has written a line
		h.stand()
	}
	for _, h := range l.hosts {
		h.end()
	}
	records := l.journal.read()
	ended, overrun := l.ended()
	if len(overrun) > 0 {
		l.t.Logf("this machine was too busy for %d lose hooks, which the end of the lease has cut: %v", len(overrun), overrun)
	}
	rules := verdict.Rules{Strict: true, MayOverlap: l.overlap != "", Guarded: l.guarded, Unheld: l.unheld, Cut: overrun, Ended: ended, Failed: l.failed(), Asked: l.asked()}
	for _, c := range verdict.JudgeHooks(records, rules) {
		for _, b := range c.Breaches {
			l.t.Errorf("the promise that %s: %v", c.Name, b)
		}
	}
	for _, h := range l.hosts {
		if words := h.wordsOfDoom(); words != "" {
			l.t.Errorf("the agent of %s says:\n%s", h, words)
		}
	}
	if l.t.Failed() {
		l.t.Logf("hooks in order:\n%s", timeline(records))
		for _, h := range l.hosts {
			l.t.Logf("last words of %s:\n%s", h, h.lastWords())
		}
	}
	for _, h := range l.hosts {
		h.net.KillAll() // hooks, and what these left behind
		_ = os.RemoveAll(filepath.Join(netnsConfig, string(h.net.Namespace)))
	}
	l.net.Close()
	_ = os.Remove(netnsConfig) // goes if it is empty
	l.keep()
	_ = os.RemoveAll(l.dir)
}

// keep moves what the hosts of a failed test wrote to where BULLY_E2E_KEEP says, which is on
// the same file system as the temporary directory.
func (l *lan) keep() {
	if !l.t.Failed() {
		return
	}
	place := cmp.Or(os.Getenv("BULLY_E2E_KEEP"), filepath.Join(os.TempDir(), "bully-agent-failed"))
	if err := os.MkdirAll(place, 0o700); err != nil {
		l.t.Logf("keep what the hosts wrote: %v", err)
		return
	}
	kept := filepath.Join(place, fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(l.t.Name(), "/", "-"), prefix(os.Getpid()), l.number))
	if err := os.Rename(l.dir, kept); err != nil {
		l.t.Logf("keep what the hosts wrote: %v", err)
		return
	}
	l.t.Logf("what the hosts wrote is kept in %s", kept)
}

// eventually waits until met returns nil, and fails the test with its last
// error when that takes longer than bound.
func (l *lan) eventually(what string, bound time.Duration, met func() error) {
	l.t.Helper()
	begun := time.Now()
	for {
		err := met()
		took := time.Since(begun).Round(time.Millisecond)
		if err == nil {
			l.t.Logf("%s: after %v", what, took)
			return
		}
		if took > bound {
			l.t.Fatalf("%s: not within %v: %v", what, bound, err)
		}
		time.Sleep(pollInterval)
	}
}

// pollInterval is a compromise: each look costs the agents a request.
const pollInterval = 20 * time.Millisecond

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
