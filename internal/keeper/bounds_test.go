package keeper

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// An event among as many members as there can be is none too many.
func TestKeeperTakesManyMembers(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "wc -c >told"}))
	ev := d.event(hooks.BecomeLeader, 7)
	for i := range 10_000 {
		ev.Members = append(ev.Members, hooks.Member{ID: fmt.Sprintf("%036d", i), Name: fmt.Sprint("host", i), Addr: "192.0.2.1:7950", Status: "alive"})
	}
	d.Start(ev, time.Time{})
	d.wants(hooks.BecomeLeader, 7, true)
	if n, _ := strconv.Atoi(strings.TrimSpace(r.Text("told"))); n < 1<<20 {
		t.Errorf("the hook was told %d bytes", n)
	}
}

// Of a job as many attempts run at a time as its settings allow; when one has ended there is room.
func TestKeeperRunsOneAttemptOfAJob(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.Renew(clock().Add(patience), false)
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

// The longest list of clients comes as it was sent.
func TestClientsAreAMessage(t *testing.T) {
	var all []resourcerun.Client
	for i := range resourcerun.MaxClients {
		all = append(all, resourcerun.Client{Here: netip.MustParseAddrPort("[2001:db8:ffff:ffff:ffff:ffff:ffff:50]:65535"),
			There: netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:ffff:ffff:ffff:ffff:ffff:9]:%d", 60_000+i))})
	}
	if o, err := decodeOrder(encodeOrder(order{Do: toReset, Clients: all})); err != nil || !slices.Equal(o.Clients, all) {
		t.Errorf("%d clients of an order, %v", len(o.Clients), err)
	}
}

// Of members for which a message has no room a command is not told, and runs.
func TestOrdersThatAreTooLong(t *testing.T) {
	ev := eventOf("a", hooks.LoseLeadership, 1)
	ev.Members = make([]hooks.Member, 40_000)
	text := encodeOrder(order{Do: toStart, Event: ev})
	o, err := decodeOrder(text)
	if n := len(o.Event.Members); len(text) > sidecar.MaxMessage || err != nil || n == 0 || n == len(ev.Members) || o.Event.Kind != ev.Kind {
		t.Errorf("%d bytes, and %d members: %v", len(text), n, err)
	}
}

// What waits tells of so many members at most, and each event waits.
func TestBoundsOfMembersThatWait(t *testing.T) {
	b := newBounds()
	ask := func(members int) int {
		ev := eventOf("a", hooks.LoseLeadership, 1)
		ev.Members = make([]hooks.Member, members)
		if why, _ := b.admit(&ev); why != "" {
			t.Error(why)
		}
		return len(ev.Members)
	}
	const most = maxWaitingMembers
	for _, tt := range []struct{ asked, want int }{{most + 1, most}, {1, 0}, {0, 0}} {
		if got := ask(tt.asked); got != tt.want {
			t.Errorf("of %d members it tells of %d, want %d", tt.asked, got, tt.want)
		}
	}
	b.settled()
	if got := ask(most); got != most {
		t.Errorf("there is room again, and it tells of %d", got)
	}
}
