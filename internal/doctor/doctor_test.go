package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// healthy is a host of three of which all is well.
func healthy() control.Examination {
	sees := func(name string) control.Sight {
		return control.Sight{Name: name, Status: "alive", Version: "v1", Source: "10.0.0.1", Knows: true, Heard: 3, PingsUs: true, MTU: 1500,
			Arrived: 3, Pinged: true, OffsetMS: 2}
	}
	return control.Examination{Self: control.Member{Name: "alpha", Addr: "10.0.0.1:7950"}, Version: "v1", Proven: true, CanAsk: true,
		HeartbeatMS: 50, StopBudgetMS: 100, SyncMS: 3, TurnMS: 1, StateDir: "/s", Scheduling: control.Scheduling{Policy: "realtime"}, MTU: 1500,
		Seeds: []string{"beta:7950"}, Peers: []control.Sight{sees("beta"), sees("gamma")}}
}

func complaints(e control.Examination) (all []string) {
	for _, l := range Judge(e) {
		if l.Level == OK && l.Do != "" || l.Level != OK && l.Do == "" {
			all = append(all, "remedy and level do not agree: "+l.Text)
		}
		if l.Level != OK {
			all = append(all, string(l.Level)+" "+l.Check+": "+l.Text)
		}
	}
	return all
}

// Each fault is one line, and a healthy host has none.
func TestEachFaultIsOneLine(t *testing.T) {
	each := func(e *control.Examination, f func(*control.Sight)) {
		for i := range e.Peers {
			f(&e.Peers[i])
		}
	}
	beta := func(e *control.Examination) *control.Sight { return &e.Peers[0] }
	for _, c := range []struct {
		name  string
		spoil func(*control.Examination)
		want  string
	}{
		{"healthy", func(*control.Examination) {}, ""},
		{"alone", func(e *control.Examination) { e.Peers, e.Seeds = nil, nil }, ""},
		{"nobody found", func(e *control.Examination) { e.Peers, e.JoinError = nil, "look up beta: no such host" },
			"FAIL others: none of beta:7950 was ever heard: look up beta: no such host"},
		{"cloned machines", func(e *control.Examination) {
			for i := range e.Peers {
				e.Peers[i].Name, e.Peers[i].Addr = e.Self.Name, fmt.Sprintf("10.0.0.%d:7950", i+2)
			}
		}, "warn names: 3 members are called alpha: 10.0.0.1:7950 (this host), 10.0.0.2:7950, 10.0.0.3:7950"},
		{"a second key was made", func(e *control.Examination) {
			e.Keys, e.OtherKeys = []string{"4f1c9a02"}, []control.Odd{{Name: "10.0.0.9:7950", Differ: "9e0d71b3"}}
			e.KeyRemedy = "copy one"
		}, "warn key: a host at 10.0.0.9:7950 has another key (id 9e0d71b3), and this host has 4f1c9a02"},
		{"its own host list", func(e *control.Examination) { e.Hosts = control.HostList{Digest: "206da55822aaab0b", Listed: 3} }, ""},
		{"not in the host list", func(e *control.Examination) {
			e.Hosts.LeftOutBy = []control.LeftOut{{Name: "beta", Addr: "10.0.0.2:7950"}}
		}, "FAIL hosts: beta at 10.0.0.2:7950 leaves this host out of its host list"},
		{"all leave it out", func(e *control.Examination) {
			each(e, func(p *control.Sight) {
				p.Addr = map[string]string{"beta": "10.0.0.2:7950", "gamma": "10.0.0.3:7950"}[p.Name]
				e.Hosts.LeftOutBy = append(e.Hosts.LeftOutBy, control.LeftOut{Name: p.Name, Addr: p.Addr})
				*p = control.Sight{Name: p.Name, Addr: p.Addr, Trouble: "it closed the stream"}
			})
		}, "FAIL others: beta, gamma cannot be asked, since hosts there does not name this host\n" +
			"FAIL hosts: beta at 10.0.0.2:7950 leaves this host out of its host list\nFAIL hosts: gamma at 10.0.0.3:7950 leaves this host out of its host list"},
		{"a host that is not listed", func(e *control.Examination) {
			e.Hosts.LeftOut = []control.LeftOut{{ID: "f0", Addr: "10.0.0.9:7950", Nearest: "beta"}}
		}, "warn hosts: a host at 10.0.0.9:7950 has the key, and hosts does not name it: f0 (beta is nearly that)"},
		{"another host list", func(e *control.Examination) { e.OtherList = []string{"beta"} }, "warn hosts: the host list is not that of beta"},
		{"its address has gone", func(e *control.Examination) {
			each(e, func(p *control.Sight) { *p = control.Sight{Name: p.Name, Trouble: "network is unreachable"} })
			e.MTU, e.Link, e.LinkRemedy, e.Failing = 0, "10.0.0.1 is on no interface", "put it back", []string{"srv:x.lan: no route"}
		}, "FAIL link: 10.0.0.1 is on no interface"},
		{"a source of hosts", func(e *control.Examination) {
			e.Failing = []string{"srv:x.lan: x.lan has no SRV records; tried again in 2s"}
		},
			"warn join: srv:x.lan: x.lan has no SRV records; tried again in 2s"},
		{"one host is off", func(e *control.Examination) {
			*beta(e) = control.Sight{Name: "beta", Status: "dead", Trouble: "no answer"}
		},
			"warn others: beta could not be asked by TCP: no answer"},
		{"TCP out", func(e *control.Examination) { each(e, func(p *control.Sight) { p.Trouble = "no answer" }) },
			"FAIL others: no other host could be asked by TCP: beta, gamma: no answer"},
		{"UDP in", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Arrived, p.Pinged, p.PingsUs = 0, false, false })
		},
			"FAIL udp: one way only: no datagram of beta, gamma arrives here"},
		{"UDP in, and taken for dead there", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Arrived, p.Pinged, p.Knows, p.Heard = 0, false, false, 0 })
		}, "FAIL udp: one way only: no datagram of beta, gamma arrives here"},
		{"UDP out", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Heard, p.Pinged, p.PingsUs = 0, false, false })
		},
			"FAIL udp: one way only: no datagram of this host arrives at beta, gamma, though theirs arrive here"},
		{"UDP to one", func(e *control.Examination) { beta(e).Heard, beta(e).Pinged = 0, false },
			"FAIL udp: one way only: no datagram of this host arrives at beta, though theirs arrive here"},
		{"UDP both", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Heard, p.Arrived, p.Pinged = 0, 0, false })
		},
			"FAIL udp: no datagram passes between this host and beta, gamma, though TCP does"},
		{"pings dropped", func(e *control.Examination) { beta(e).Pinged = false }, "warn udp: datagrams pass, and beta did not answer a ping"},
		{"TCP in", func(e *control.Examination) { each(e, func(p *control.Sight) { p.Knock = "no answer" }) },
			"FAIL tcp: TCP port 7950 of this host is closed to beta, gamma: no answer"},
		{"NAT that works", func(e *control.Examination) { beta(e).Source = "10.0.0.254" },
			"warn address: seen from beta this host is at 10.0.0.254, and it says to be at 10.0.0.1:7950: addresses are rewritten on the way"},
		{"NAT that does not", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Source, p.Knock = "10.0.0.254", "connection refused" })
		}, "FAIL address: seen from beta, gamma this host is at 10.0.0.254, and it says to be at 10.0.0.1:7950: addresses are rewritten on the way"},
		{"own MTU", func(e *control.Examination) { e.MTU = 600 },
			"FAIL mtu: the interface of 10.0.0.1:7950 has an MTU of 600: long datagrams are lost; expected at least 1280"},
		{"the path's MTU", func(e *control.Examination) { beta(e).LosesLarge = true },
			"FAIL mtu: a long question to beta has no answer, and a short one has: the path has a smaller MTU than both ends, and does not say so"},
		{"another MTU", func(e *control.Examination) { beta(e).MTU = 9000 }, "warn mtu: the MTU is 1500 here, and another at beta"},
		{"a long way", func(e *control.Examination) {
			e.Far = "the round trip to beta is 380 ms, and the lease bears at most 342 ms"
		},
			"warn round trip: the round trip to beta is 380 ms, and the lease bears at most 342 ms: no leader may last"},
		{"own clock behind", func(e *control.Examination) { each(e, func(p *control.Sight) { p.OffsetMS = 300_000 }) },
			"FAIL clock: the clock of this host is 5m0s behind the others'"},
		{"own clock a little ahead", func(e *control.Examination) { each(e, func(p *control.Sight) { p.OffsetMS = -1500 }) },
			"warn clock: the clock of this host is 1.5s ahead of the others'"},
		{"one other's clock", func(e *control.Examination) { beta(e).OffsetMS = 300_000 },
			"warn clock: the clock of beta is 5m0s ahead of this host's and the others'"},
		{"of two", func(e *control.Examination) { e.Peers = e.Peers[:1]; beta(e).OffsetMS = -120_000 },
			"FAIL clock: the clock of this host is 2m0s ahead of beta's"},
		{"version", func(e *control.Examination) { beta(e).Version = "v0" }, "warn version: v1 here, v0 at beta"},
		{"settings", func(e *control.Examination) {
			e.Odd = []control.Odd{{Name: "beta", Differ: "lease: 400ms here, 160ms at beta"}}
		},
			"FAIL settings: beta takes no part here: lease: 400ms here, 160ms at beta"},
		{"an address of this host alone", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Addresses = "10.0.0.50" })
			e.Addresses = "10.0.0.50 10.0.0.51"
		}, "warn resources: 10.0.0.51 goes with the leadership of this host, and not with that of beta, gamma"},
		{"an address of one other", func(e *control.Examination) {
			each(e, func(p *control.Sight) { p.Addresses = "none" })
			e.Addresses, beta(e).Addresses = "none", "10.0.0.50"
		}, "warn resources: 10.0.0.50 goes with the leadership of beta, and not with that of this host"},
		{"an address, and others that never lead or are older", func(e *control.Examination) { e.Addresses = "10.0.0.50" }, ""},
		{"a host that never leads", func(e *control.Examination) { beta(e).Addresses = "10.0.0.50" }, ""},
		{"jobs", func(e *control.Examination) { e.OtherJobs = []string{"beta"} }, "warn settings: the jobs are not those of beta"},
		{"waits for a restart", func(e *control.Examination) {
			e.Waiting = []control.Waiting{{Setting: "node.role", Now: "voter", Then: "witness"}}
		},
			"warn settings: node.role was changed from voter to witness, and waits for a restart"},
		{"a file that a start would refuse", func(e *control.Examination) {
			e.Refusal = "a.toml:1:1: x: no; hint: did you mean y?\na.toml:2:1: z: no"
		},
			"FAIL settings: the next start and a reload would be refused: a.toml:1:1: x: no; and 1 more"},
		{"a file system that hangs", func(e *control.Examination) { e.RefusalError = "reading what a start reads has not ended after 8s" },
			"warn settings: it is not known whether the next start would be refused: reading what a start reads has not ended after 8s"},
		{"what only root sees", func(e *control.Examination) { e.Unseen = true }, ""},
		{"slow disk", func(e *control.Examination) { e.SyncMS = 300 },
			"FAIL disk: a write to /s takes 300.0 ms (p95); a leader has 100 ms to let go"},
		{"disk that may be slow", func(e *control.Examination) { e.SyncMS = 60 },
			"warn disk: a write to /s takes 60.0 ms (p95); a leader has 100 ms to let go"},
		{"disk full", func(e *control.Examination) { e.SyncError = "no space left on device" }, "FAIL disk: /s cannot be written: no space left on device"},
		{"rights", func(e *control.Examination) { e.Access = "/s may be written by others" }, "FAIL files: /s may be written by others"},
		{"scheduling", func(e *control.Examination) {
			e.Scheduling = control.Scheduling{Policy: "normal", Why: "not permitted"}
		},
			"warn scheduling: normal: not permitted"},
		{"no reader", func(e *control.Examination) {
			e.Reader = &control.Reader{Error: "exit status 2", Addr: "10.0.0.1:7951"}
		},
			"FAIL reader: the network is not answered at 10.0.0.1:7951: exit status 2"},
		{"a reader that is confined less", func(e *control.Examination) {
			e.Reader = &control.Reader{Process: 7, Addr: "10.0.0.1:7951", Lacks: "no Landlock: operation not supported"}
		},
			"warn reader: answers the network at 10.0.0.1:7951, confined less than it should be: no Landlock: operation not supported"},
		{"a reader", func(e *control.Examination) { e.Reader = &control.Reader{Process: 7, Addr: "10.0.0.1:7951"} }, ""},
		{"scheduling as asked", func(e *control.Examination) {
			e.Scheduling = control.Scheduling{Policy: "normal", Why: "real time was not asked for"}
		}, ""},
		{"busy", func(e *control.Examination) { e.TurnMS = 80 },
			"warn load: the agent comes to something new within 80.0 ms (p95), and a heartbeat is due every 50 ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := healthy()
			c.spoil(&e)
			if got := strings.Join(complaints(e), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Without a key anybody may have answered, which is said.
func TestAnswersOfAnybodyAreSaidToBe(t *testing.T) {
	e := healthy()
	e.Proven = false
	if first := Judge(e)[0]; first.Level != OK || !strings.Contains(first.Text, "any host can be among them") {
		t.Errorf("%+v", first)
	}
}

func TestKeyAge(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for made, want := range map[string]Level{"2026-11-23": OK, "2025-12-01": OK, "2025-11-01": Warn, "2027-01-01": Warn} {
		at, _ := time.Parse("2006-01-02", made)
		if l := KeyAge("4f1c9a02", at, now); l.Level != want {
			t.Errorf("%s: %+v", made, l)
		}
	}
}

// chrony slews by tick, in steps of 100 millionths, and by freq for the rest; the kernel's own loop by freq alone, which is
// bounded by 500 millionths.
func TestClockRate(t *testing.T) {
	for _, c := range []struct {
		name       string
		tick, freq int64
		want       string // empty: nothing
	}{
		{"nobody slews", 10000, 0, ""},
		{"a crystal as usual", 10000, -1_500_000, ""},
		{"the kernel's loop at its bound", 10000, 500 << 16, ""},
		{"maxslewrate 5000", 9950, 0, ""},
		{"just 1 %", 10100, 0, ""},
		{"a little more", 10100, 1 << 16, "run 1.0 % faster"},
		{"its crystal takes some back", 10101, -101 << 16, ""},
		{"chrony's default, ahead", 10833, 21 << 16, "run 8.3 % faster"},
		{"chrony's default, back", 9167, 0, "run 8.3 % slower"},
	} {
		lines := ClockRate(c.tick, c.freq)
		switch {
		case c.want == "" && len(lines) > 0:
			t.Errorf("%s: %+v, want nothing", c.name, lines)
		case c.want == "":
		case len(lines) != 1 || lines[0].Level != Warn || !strings.Contains(lines[0].Text, c.want) || !strings.Contains(lines[0].Do, "maxslewrate"):
			t.Errorf("%s: %+v, want a warning that says %q", c.name, lines, c.want)
		}
	}
}

func TestWorst(t *testing.T) {
	if w := Worst([]Line{{Level: OK}, {Level: Fail}, {Level: Warn}}); w != Fail {
		t.Error(w)
	}
	if w := Worst([]Line{{Level: Warn}, {Level: OK}}); w != Warn {
		t.Error(w)
	}
}
