package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// What no agent of ours would send, and its keeper outlives.

func (d *desk) process() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keeper.cmd.Process.Pid
}

// sends sends a message as it is, beside those of the desk's own.
func (d *desk) sends(text string) {
	d.t.Helper()
	d.mu.Lock()
	c := d.keeper.conn
	d.mu.Unlock()
	c.Patience(patience)
	if _, err := c.Out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		d.t.Fatal(err)
	}
}

// descriptors is how many a process has.
func (r *rig) descriptors(pid int) int {
	r.t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if errors.Is(err, os.ErrPermission) {
		r.t.Skip("skipped: only root can look into a keeper")
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return len(all)
}

// memoryMB is what a process has of its own, in memory.
func (r *rig) memoryMB(pid int) float64 {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "RssAnon:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return kb / 1000
		}
	}
	r.t.Fatal("its memory is not known")
	return 0
}

// Messages cost a keeper no more memory than a few of them take, and no descriptor, however many come, and whatever is in them;
// and it goes on.
func TestKeeperOutlivesHostileMessages(t *testing.T) {
	r := newRig(t)
	s := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})
	d := r.open(s.with("one", "cd "+r.Dir.Name+"; echo x >>began; until test -e go; do sleep 0.05; done"))
	d.leads(7)
	d.Renew(clock().Add(patience), false)
	is := d.process()
	for range 1000 { // what orders cost that are well
		d.gives(order{Do: toReach})
	}
	if !d.Lend() {
		t.Fatal("the keeper hears nothing any more")
	}
	files, memory := r.descriptors(is), r.memoryMB(is)
	for range 20 {
		d.sends(strings.Repeat("x", sidecar.MaxMessage))
	}
	for range 2000 {
		d.sends(`{"Number":1,"Do":"stop"}`)
	}
	for i := range 1000 {
		o := jobOrder(d.owner, fmt.Sprint("run", i))
		o.Job = "one"
		d.gives(order{Do: toBegin, Job: &o})
	}
	for range 999 {
		if res := d.ends(); !strings.Contains(res.Err, "not started") {
			t.Fatalf("result %+v", res)
		}
	}
	if err := os.WriteFile(r.Path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := d.ends(); res.Err != "" {
		t.Errorf("result %+v", res)
	}
	if began := strings.Count(r.Text("began"), "x"); began != 1 {
		t.Errorf("%d attempts began", began)
	}
	r.Until("no descriptor to be left", func() bool { return r.descriptors(is) <= files })
	more := r.memoryMB(is) - memory
	t.Logf("the keeper takes %.1f MB more", more)
	if more > 4*float64(sidecar.MaxMessage)/1e6 && !testing.Short() { // the race detector's tests are short
		t.Errorf("the keeper takes %.1f MB more", more)
	}
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	if now := d.process(); now != is {
		t.Errorf("process %d has done it, and %d is gone", now, is)
	}
}

// What a keeper refuses, it says why.
func TestKeeperRefusesMessages(t *testing.T) {
	r := newRig(t)
	d := r.inner(fixed(r.config(nil)))
	const start = `{"Number":1,"Do":"start"}`
	for _, tt := range []struct{ why, text string }{
		{why: "more than any of ours", text: `{"Clients":[` + strings.Repeat("{},", 9000) + "{}]}"},
		{why: "unknown field", text: `{"Command":"x"}`},
		{why: "cannot unmarshal string", text: `{"Number":"x"}`},
		{why: "more follows", text: start + "{}"},
		{why: "invalid character", text: "\xff\x00\x01"},
		{why: "invalid character", text: "R"},
	} {
		d.k.bounds.saidAt = time.Time{} // refusals are a line a second
		if err := d.theirs.Send([]byte(tt.text)); err != nil {
			t.Fatal(err)
		}
		d.k.listen()
		if said := d.k.out.waiting[len(d.k.out.waiting)-1]; said.Say != sayLog || !strings.Contains(fmt.Sprint(said.Log.Args), tt.why) {
			t.Errorf("%.30s: it said %+v, want %q", tt.text, said.Log, tt.why)
		}
	}
	d.asks(hooks.BecomeLeader, 1, 0)
	d.told(hooks.BecomeLeader, 1)
}

// What is no message ends what an agent has to say, and its keeper says why.
func TestKeeperHearsNoMore(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(nil)))
	if _, err := in.theirs.Out.Write([]byte("no message")); err != nil {
		t.Fatal(err)
	}
	in.hears()
	if said := in.k.out.waiting[len(in.k.out.waiting)-1]; said.Say != sayLog || !strings.Contains(fmt.Sprint(said.Log.Args), "bytes, of 1 to") || !in.k.isDeaf {
		t.Errorf("it said %+v", said.Log)
	}
}

// An agent of another program hears so in one line.
func TestKeeperOfAnotherVersion(t *testing.T) {
	if sameVersion(version) != nil {
		t.Error("their own")
	}
	r := newRig(t)
	for _, theirs := range []int{0, version + 1} {
		in := r.unopened(nil)
		k := in.k
		in.gives(order{Do: toOpen, Version: theirs})
		in.hears()
		answer := k.out.waiting[0]
		if !strings.Contains(answer.Err, fmt.Sprint(theirs)) || strings.Contains(answer.Err, "\n") || answer.Version != version || k.phase != closing {
			t.Errorf("version %d: %+v, phase %v", theirs, answer, k.phase)
		}
	}
}

// An agent that reads none of its answers has no more of its orders read, until it does; and its death is noticed all the same.
func TestKeeperHearsNobodyWhoReadsNothing(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})))
	in.asks(hooks.BecomeLeader, 1, patience)
	in.told(hooks.BecomeLeader, 1)
	for range maxUnread { // an answer each
		in.gives(order{Do: toAsk, Program: "no such"})
		in.hears()
	}
	in.gives(order{Do: toStop, Epoch: 1})
	in.hears()
	if n := len(in.k.out.waiting) - in.k.out.lines; n != maxUnread || in.k.heard == in.number {
		t.Errorf("%d reports wait, and order %d of %d has been read", n, in.k.heard, in.number)
	}
	select {
	case <-in.k.posts.some:
	default:
	}
	for in.k.out.isFull() {
		in.k.out.next()
	}
	select {
	case <-in.k.posts.some:
	default:
		t.Error("nobody looks whether it can go on")
	}
	for in.k.heard != in.number {
		before := in.k.heard
		if in.hears(); in.k.heard == before {
			if _, _, ok := in.k.out.next(); !ok {
				t.Fatal("it hears nothing any more")
			}
		}
	}
	for !in.k.out.isFull() {
		in.gives(order{Do: toAsk, Program: "no such"})
		in.hears()
	}
	in.gives(order{Do: toAsk, Program: "the last word"})
	in.k.agent.pid = 0
	in.k.turn()
	if in.k.heard != in.number || !in.k.isDead {
		t.Errorf("order %d of %d has been read of an agent that is dead: %t", in.k.heard, in.number, in.k.isDead)
	}
}

// An agent that says more than can be read keeps its keeper from nothing else.
func TestKeeperReadsSoMuchInATurn(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(nil)))
	in.k.bounds.atOnce = 10
	first := in.number
	for range 15 {
		in.gives(order{Do: toReach})
	}
	in.hears()
	if n := in.k.heard - first; n != 10 {
		t.Errorf("%d read", n)
	}
	<-in.k.posts.some
	if in.hears(); in.k.heard != in.number {
		t.Errorf("%d read", in.k.heard-first)
	}
}

// While the settings are read, which may take as long as a disk likes, only so many orders wait for that.
func TestKeeperHoldsSoManyOrders(t *testing.T) {
	r := newRig(t)
	in, let := r.reads(r.config(nil), r.config(nil))
	in.gives(order{Do: toReload})
	in.hears()
	for range 3 * maxHeld {
		in.gives(order{Do: toReach})
		if in.hears(); len(in.k.reading.held) >= maxHeld {
			t.Fatalf("%d are held", len(in.k.reading.held))
		}
	}
	let <- nil
	in.until("the settings", func() bool { return !in.k.reading.isOn })
	in.gives(order{Do: toReload})
	in.hears()
	ev := in.event(hooks.MemberChange, 0)
	ev.Members = make([]hooks.Member, maxWaitingMembers/4+1)
	in.k.reading.held = []order{{Event: ev}, {Event: ev}, {Event: ev}, {Event: ev}}
	in.gives(order{Do: toStart, ID: 1, Event: in.event(hooks.MemberChange, 0)})
	if in.hears(); len(in.k.reading.held) > 0 {
		t.Errorf("%d are held", len(in.k.reading.held))
	}
	let <- nil
	in.until("the settings", func() bool { return !in.k.reading.isOn })
}

// What takes a goroutine each time is done as often as an agent that is well asks for it: once.
func TestKeeperRecoversJobsOnce(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(nil)))
	for range 3 {
		in.gives(order{Do: toRecover})
		in.gives(order{Do: toSweep})
	}
	in.hears()
	in.takes()
	in.k.turn()
	in.k.out.mu.Lock()
	defer in.k.out.mu.Unlock()
	n := 0
	for _, r := range in.k.out.waiting {
		if r.Say == sayRecovered {
			n++
		}
	}
	if n != 1 || !in.k.bounds.hasSwept {
		t.Errorf("recovered %d times", n)
	}
}
