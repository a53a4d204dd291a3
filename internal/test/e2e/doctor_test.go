package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// finding is one line of doctor's.
type finding struct{ Level, Check, Text, Do string }

// doctor gives what doctor complains of on h, and its exit code.
func (h *host) doctor() (complaints []finding, code int) {
	h.lan.t.Helper()
	out, code := h.cli("doctor", "--json")
	var all []finding
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		h.lan.t.Fatalf("doctor on %s: exit %d, %v: %s", h, code, err, out)
	}
	for _, f := range all {
		if f.Level != "ok" {
			complaints = append(complaints, f)
		}
	}
	return complaints, code
}

// complaint is what a fault must come to: one line, with these words in it, and what to do.
type complaint struct{ level, check, says, do string }

func (h *host) complainsOnlyOf(want complaint) {
	h.lan.t.Helper()
	h.lan.eventually("doctor on "+h.name+" names it", 30*time.Second, func() error {
		found, code := h.doctor()
		if len(found) != 1 {
			return fmt.Errorf("expected one complaint, found %+v", found)
		}
		f := found[0]
		if f.Level != want.level || f.Check != want.check || !strings.Contains(f.Text, want.says) || !strings.Contains(f.Do, want.do) {
			return fmt.Errorf("found %+v, expected %+v", f, want)
		}
		if isFail := want.level == "FAIL"; isFail != (code == 1) || !isFail && code != 0 {
			return fmt.Errorf("exit code %d with %s", code, want.level)
		}
		return nil
	})
}

func (h *host) isHealthy() {
	h.lan.t.Helper()
	h.lan.eventually("doctor on "+h.name+" has no complaint", 60*time.Second, func() error {
		if found, code := h.doctor(); len(found) > 0 || code != 0 {
			return fmt.Errorf("exit %d, %+v", code, found)
		}
		return nil
	})
}

// areHealthyAtOnce: nor has any host a complaint when people ask on all of them in the same moment.
func (l *lan) areHealthyAtOnce() {
	l.t.Helper()
	var group sync.WaitGroup
	complaints := make([][]finding, len(l.hosts))
	for i, h := range l.hosts {
		group.Go(func() { complaints[i], _ = h.doctor() })
	}
	group.Wait()
	for i, h := range l.hosts {
		if len(complaints[i]) > 0 {
			l.t.Errorf("asked on all hosts at once, doctor on %s says %+v", h, complaints[i])
		}
	}
}

// rules are one table of the packet filter, so that it can be taken away.
func rules(chain string, lines ...string) []string {
	all := []string{"table inet doctor {", "chain x { " + chain}
	return append(append(all, lines...), "}", "}")
}

const (
	filterIn  = "type filter hook input priority 0;"
	filterOut = "type filter hook output priority 0;"
)

// doctorFault is something that is wrong with the first of three hosts.
type doctorFault struct {
	name        string
	quick       bool
	spoil, mend func(l *lan, h *host)
	want        complaint
}

func filtered(lines ...string) (func(*lan, *host), func(*lan, *host)) {
	return func(l *lan, h *host) { l.nft(h, lines...) }, func(l *lan, h *host) { l.nft(h, "delete table inet doctor") }
}

func doctorFaults() []doctorFault {
	var faults []doctorFault
	add := func(name string, quick bool, want complaint, lines ...string) {
		breaks, mends := filtered(lines...)
		faults = append(faults, doctorFault{name, quick, breaks, mends, want})
	}
	add("UDP in closed", true, complaint{"FAIL", "udp", "no datagram of h2, h3 arrives here", "let UDP port 7950 in"},
		rules(filterIn, "udp dport 7950 drop;")...)
	add("UDP out closed", false, complaint{"FAIL", "udp", "no datagram of this host arrives at h2, h3", "what goes out"},
		rules(filterOut, "udp dport 7950 drop;")...)
	add("UDP closed both ways", false, complaint{"FAIL", "udp", "no datagram passes between this host and h2, h3", "in both directions"},
		"table inet doctor {", "chain x { "+filterIn, "udp dport 7950 drop;", "}", "chain y { "+filterOut, "udp dport 7950 drop;", "}", "}")
	add("TCP in closed", true, complaint{"FAIL", "tcp", "TCP port 7950 of this host is closed to h2, h3: no answer", "let TCP port 7950 in"},
		rules(filterIn, "tcp dport 7950 ct state new drop;")...)
	add("TCP in refused", false, complaint{"FAIL", "tcp", "closed to h2, h3: connection refused", "let TCP port 7950 in"},
		rules(filterIn, "tcp dport 7950 ct state new reject with tcp reset;")...)
	add("TCP out closed", false, complaint{"FAIL", "others", "no other host could be asked by TCP: h2, h3: no answer", "open TCP connections to port 7950"},
		rules(filterOut, "tcp dport 7950 ct state new drop;")...)
	faults = append(faults, doctorFault{name: "one way to one host",
		spoil: func(l *lan, h *host) {
			l.nft(l.hosts[1], rules(filterIn, "ip saddr "+h.addr.Addr().String()+" udp dport 7950 drop;")...)
		},
		mend: func(l *lan, _ *host) { l.nft(l.hosts[1], "delete table inet doctor") },
		want: complaint{"FAIL", "udp", "no datagram of this host arrives at h2, though theirs arrive here", "at theirs"}})
	faults = append(faults, doctorFault{name: "NAT", quick: true,
		spoil: func(l *lan, h *host) {
			l.ip(h.net.Namespace, "addr add dev eth0 "+l.elsewhere()+"/24")
			l.nft(h, "table ip doctor {", "chain x { type nat hook postrouting priority 100;",
				"ip protocol { tcp, udp } ct direction original ip daddr != "+h.addr.Addr().String()+" snat to "+l.elsewhere()+";", "}", "}")
		},
		mend: func(l *lan, h *host) {
			l.nft(h, "delete table ip doctor")
			l.ip(h.net.Namespace, "addr del dev eth0 "+l.elsewhere()+"/24")
		},
		want: complaint{"warn", "address", "addresses are rewritten on the way", "advertise"}})
	faults = append(faults, doctorFault{name: "small MTU", quick: true,
		spoil: func(l *lan, h *host) { l.ip(h.net.Namespace, "link set eth0 mtu 700") },
		mend:  func(l *lan, h *host) { l.ip(h.net.Namespace, "link set eth0 mtu 1500") },
		want:  complaint{"FAIL", "mtu", "has an MTU of 700", "at least 1280"}})
	add("a path that loses what is long", false, complaint{"FAIL", "mtu", "a long question to h2, h3 has no answer, and a short one has", "ICMP fragmentation needed"},
		"table inet doctor {", "chain x { "+filterIn, "ip length > 700 drop;", "}", "chain y { "+filterOut, "ip length > 700 drop;", "}", "}")
	faults = append(faults, doctorFault{name: "hook gone",
		spoil: func(l *lan, h *host) { must(l.t, os.Remove(l.hook())) },
		mend:  func(l *lan, h *host) { must(l.t, os.WriteFile(l.hook(), []byte("#!/bin/sh\n"), 0o700)) },
		want:  complaint{"FAIL", "hooks", "leader-change: ", "mend the path"}})
	faults = append(faults, doctorFault{name: "key for everybody",
		spoil: func(l *lan, h *host) { must(l.t, os.Chmod(l.key(), 0o644)) },
		mend:  func(l *lan, h *host) { must(l.t, os.Chmod(l.key(), 0o600)) },
		want:  complaint{"FAIL", "key", "mode -rw-r--r--", "chmod 600"}})
	return append(faults, slowDisk())
}

// elsewhere is an address that nobody has.
func (l *lan) elsewhere() string { return fmt.Sprintf("10.78.%d.200", l.number) }

// hook is a script that is there when the agents start.
func (l *lan) hook() string { return filepath.Join(l.dir, "hook") }

// slowDisk has each sync of the agent take 300 ms, as strace can have it.
func slowDisk() doctorFault {
	var tracer *exec.Cmd
	return doctorFault{name: "slow disk",
		spoil: func(l *lan, h *host) {
			strace, err := exec.LookPath("strace")
			if err != nil {
				l.t.Skip("skipped: the command strace is not installed")
			}
			tracer = exec.Command(strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=300000",
				"-p", strconv.Itoa(h.agent.cmd.Process.Pid))
			must(l.t, tracer.Start())
			l.eventually("strace has the agent", 10*time.Second, func() error {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.agent.cmd.Process.Pid))
				if err == nil && !strings.Contains(string(text), "TracerPid:\t"+strconv.Itoa(tracer.Process.Pid)) {
					err = errors.New("not yet")
				}
				return err
			})
		},
		mend: func(l *lan, _ *host) {
			must(l.t, tracer.Process.Signal(os.Interrupt))
			_ = tracer.Wait()
		},
		want: complaint{"FAIL", "disk", " ms to let go", "faster disk"}}
}

// Each fault is named by one line with the right remedy, on the host that has it; a healthy host has none.
func TestDoctorNamesTheFault(t *testing.T) {
	needsNft(t)
	t.Parallel()
	l := newLAN(t, 3)
	must(t, os.WriteFile(l.hook(), []byte("#!/bin/sh\n"), 0o700))
	l.options = append(l.options, "--on-leader-change", l.hook())
	l.overlap = "datagrams are filtered"
	l.start()
	l.agreeOn(l.best())
	h := l.hosts[0]
	for _, other := range l.hosts {
		other.isHealthy()
	}
	l.areHealthyAtOnce()
	for _, f := range doctorFaults() {
		if !f.quick && os.Getenv("BULLY_E2E") == "" && !isSet("test.run") {
			continue
		}
		ran := t.Run(f.name, func(t *testing.T) {
			defer func(was *testing.T) { l.t = was }(l.t)
			l.t = t
			f.spoil(l, h)
			defer func() {
				f.mend(l, h)
				h.isHealthy()
			}()
			h.complainsOnlyOf(f.want)
		})
		if !ran {
			return // what follows would find the same
		}
	}
}

// Without a key it works too, and says that anybody can answer. Other settings and another version are named.
func TestDoctorNamesWhatDiffers(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 3)
	l.withoutKeys()
	old := filepath.Join(l.dir, "old")
	build := exec.Command("go", "build", "-o", old, "-ldflags", "-X github.com/bully-agent/bully-agent/internal/cli.version=v0.0.9", "github.com/bully-agent/bully-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build another version: %v: %s", err, out)
	}
	l.hosts[1].start()
	l.hosts[2].start()
	l.agreeOn(l.hosts[2], l.hosts[1:]...)
	h := l.hosts[0]
	h.options = []string{"--profile", "fast"}
	l.other = old
	h.start()
	l.other = ""
	l.eventually("doctor names both", 30*time.Second, func() error {
		out, code := h.cli("doctor")
		for _, words := range []string{"any host can be among them", "FAIL  settings    h2 takes no part here: ", "FAIL  settings    h3 takes no part here: ",
			"warn  version     v0.0.9 here, ", "warn  key         no key is used"} {
			if !strings.Contains(out, words) {
				return fmt.Errorf("exit %d, %q is missing:\n%s", code, words, out)
			}
		}
		if strings.Count(out, "FAIL") != 2 || strings.Count(out, "warn") != 2 || code != 1 {
			return fmt.Errorf("exit %d, there is more:\n%s", code, out)
		}
		return nil
	})
}
