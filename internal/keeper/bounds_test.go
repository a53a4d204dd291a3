package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// peakMB is the most memory that a process has had at once.
func peakMB(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb / 1000
		}
	}
	t.Fatal("its peak is not known")
	return 0
}

// What a message can become is bounded before it is decoded: fourteen million members in as many
// bytes took 2.7 GB, and as many as a message has bytes now would take 800 MB.
func TestKeeperBoundsWhatAMessageBecomes(t *testing.T) {
	type member struct{ Name string }
	type event struct{ Members []member }
	type foreign struct {
		Do    verb
		Event event
		Known []string
	}
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	d.leads(7)
	was := d.process()
	for _, message := range []foreign{
		{Event: event{make([]member, maxMessage+1000)}},
		{Event: event{make([]member, maxMessage-1000)}},
		{Known: make([]string, maxMessage-1000)},
	} {
		d.puts(message)
	}
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	if is := d.process(); is != was {
		t.Errorf("process %d has done it, and %d is gone", is, was)
	}
	if peak := peakMB(t, was); peak > 300 { // some 50, more with the race detector; one such message was 2.7 GB
		t.Errorf("the keeper took %.0f MB", peak)
	}
}

// An event among as many members as there can be is none too many.
func TestKeeperTakesManyMembers(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "wc -c >told"}))
	ev := d.event(hooks.BecomeLeader, 7)
	for i := range 10_000 {
		ev.Members = append(ev.Members, hooks.Member{ID: fmt.Sprintf("%036d", i), Name: fmt.Sprint("host", i), Addr: "192.0.2.1:7950", Status: "alive"})
	}
	d.Start(ev)
	d.wants(hooks.BecomeLeader, 7, true)
	if n, _ := strconv.Atoi(strings.TrimSpace(r.Text("told"))); n < 1<<20 {
		t.Errorf("the hook was told %d bytes", n)
	}
}

// Of the descriptors in a message none stays open.
func TestKeeperClosesAllDescriptors(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	d.leads(7)
	files := func() int {
		all, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(d.process()), "fd"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	text, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	before := files()
	for range 200 {
		d.sends(asFirst, []byte("x"), text, text)
		d.sends(asText, []byte("x"), text, text)
	}
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	if after := files(); after > before+20 {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// Of a job as many attempts run at a time as its settings allow; when one has ended there is room.
func TestKeeperRunsOneAttemptOfAJob(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.Renew(clock().Add(patience))
	for job, atOnce := range map[string]int{"one": 0, "three": 3} {
		s := d.settings.with(job, "cd "+d.Dir.Name+"; echo x >>began-"+job+"; until test -e go-"+job+"; do sleep 0.05; done")
		j := s.Jobs[job]
		j.AtOnce = atOnce
		s.Jobs[job] = j
		d.reload(s)
		for i := range 20 {
			o := jobOrder(d.owner, fmt.Sprint(job, "-", i))
			o.Job = job
			d.Jobs().Begin(o)
		}
		most := max(atOnce, 1)
		for range 20 - most {
			if res := d.ends(); !strings.Contains(res.Err, "attempts go on") {
				t.Errorf("%+v", res)
			}
		}
		if err := os.WriteFile(r.Path("go-"+job), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range most {
			if res := d.ends(); res.Err != "" {
				t.Errorf("%+v", res)
			}
		}
		if began := strings.Count(r.Text("began-"+job), "x"); began != most {
			t.Errorf("%d attempts of %s began, want %d", began, job, most)
		}
		o := jobOrder(d.owner, job+"-again")
		o.Job = job
		d.Jobs().Begin(o)
		if res := d.ends(); res.Err != "" {
			t.Errorf("once they have ended: %+v", res)
		}
	}
}

// The longest list of clients comes as it was sent, in both directions, without a file.
func TestClientsAreAMessage(t *testing.T) {
	var all []resourcerun.Client
	for i := range resourcerun.MaxClients {
		all = append(all, resourcerun.Client{Here: netip.MustParseAddrPort("[2001:db8:ffff:ffff:ffff:ffff:ffff:50]:65535"),
			There: netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:ffff:ffff:ffff:ffff:ffff:9]:%d", 60_000+i))})
	}
	var o order
	text := newEncoder().encode(order{Do: toReset, Clients: all})
	if err := newDecoder(maxZeros).decode(text, &o); err != nil || !slices.Equal(o.Clients, all) {
		t.Errorf("%d clients of an order, %v", len(o.Clients), err)
	}
	if len(text) > maxInline {
		t.Errorf("the order has %d bytes", len(text))
	}
	var r report
	if err := newDecoder(0).decode(newEncoder().encode(report{Say: sayClients, Clients: all}), &r); err != nil || !slices.Equal(r.Clients, all) {
		t.Errorf("%d clients of a report, %v", len(r.Clients), err)
	}
}

// A message that was given up in its middle, since the keeper did not read, begins anew.
func TestAMessageBegunTwice(t *testing.T) {
	ours, theirs, err := sidecar.SocketPair("test")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	from, _ := newConn(ours)
	to, _ := newConn(theirs)
	long := bytes.Repeat([]byte("0123456789"), maxInline/5)
	if err := errors.Join(from.sendOne(asFirst, long[:maxInline]), from.send(asText, long), from.send(asText, long[:9])); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := to.drain(func(_ byte, text []byte) { got = append(got, string(text)) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{string(long), string(long[:9])}) {
		t.Errorf("%d messages came, of %d bytes the first", len(got), len(got[0]))
	}
}
