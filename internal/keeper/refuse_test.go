package keeper

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/sidecar"
	"github.com/bully-agent/bully-agent/wire"
)

// What a hostile agent could ask of its keeper, one thing a test.

// puts sends a message that no agent of ours would.
func (d *desk) puts(message any) {
	d.t.Helper()
	d.sends(string(sidecar.Encode(message)))
}

// gives has an order sent as it is.
func (d *desk) gives(o order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeper.give(o, answerPatience)
}

// A command that comes with an order is not run, nor kept for later.
func TestKeeperRefusesAnotherCommand(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	evil := hooks.Config{Commands: map[hooks.Kind]hooks.Command{hooks.BecomeLeader: {Shell: "echo x >" + r.Path("evil")}}}
	type settings struct{ Hooks hooks.Config }
	type foreign struct {
		Number   uint64
		Do       verb
		Event    hooks.Event
		Settings *settings
		Command  hooks.Command
		Lease    time.Time
	}
	for _, do := range []verb{toOpen, toReload, toStart} {
		d.puts(foreign{Do: do, Settings: &settings{evil}, Command: evil.Commands[hooks.BecomeLeader], Event: r.event(hooks.BecomeLeader, 3)})
	}
	d.become(7)
	r.Until("the hook", func() bool { return strings.Contains(r.Text("order"), ":7") })
	d.reload(d.settings.with("free", "exit 3"))
	o := jobOrder(d.owner, "free")
	o.Command = evil.Commands[hooks.BecomeLeader]
	d.gives(order{Do: toBegin, Job: &o})
	if res := d.ends(); res.Exit != 3 {
		t.Errorf("the job has ended otherwise than its own command does: %+v", res)
	}
	if r.Text("evil") != "" {
		t.Error("a command of the agent's was run")
	}
}

// What a command is told are values of variables that are fixed, and harmless.
func TestKeeperRefusesAnEnvironment(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "env >env; cat >told"}))
	ev := d.event(hooks.BecomeLeader, 7)
	const evil = "x\nLD_PRELOAD=/tmp/evil.so"
	ev.Cause, ev.Cluster, ev.Mode, ev.Role, ev.Epoch.Owner = evil, "$(touch /tmp/x)", "`id`", "a b", "'"
	ev.Self = hooks.Node{ID: evil, Name: "-rf;", Addr: strings.Repeat("a", 300)}
	ev.Members = []hooks.Member{{Name: evil, Status: "alive", Priority: -1}}
	d.Start(ev, time.Time{})
	d.wants(hooks.BecomeLeader, 7, true)
	known := append(hooks.Variables(), "PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_")
	for line := range strings.Lines(r.Text("env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !slices.Contains(known, name) || strings.ContainsAny(value, "$`';\n") && name != "_" {
			t.Errorf("the command was told %q", line)
		}
	}
	if told := r.Text("told"); strings.Contains(told, "evil") || strings.Contains(told, "rf;") {
		t.Errorf("the command was told %s", told)
	}
}

// A job's name is none of the configured ones, and a run's name is a path.
func TestKeeperRefusesAPath(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.Renew(clock().Add(patience), false)
	d.reload(d.settings.with("free", "exit 3"))
	before := r.files()
	for id, job := range map[string]string{"a": "../../evil", "b": "", "/etc/x\n": "free", "": "free"} {
		o := jobOrder(d.owner, id)
		o.Job = job
		d.Jobs().Begin(o)
		if res := d.ends(); res.Exit != 126 || !strings.Contains(res.Err, "not started") {
			t.Errorf("%q of job %q: %+v", id, job, res)
		}
	}
	if after := r.files(); !slices.Equal(before, after) {
		t.Errorf("files %q, before %q", after, before)
	}
}

// files lists what is in the rig's directory, and above it.
func (r *rig) files() (names []string) {
	for _, pattern := range []string{"*", "state/*", "state/*/*", "../*"} {
		found, _ := filepath.Glob(filepath.Join(r.Dir.Name, pattern))
		names = append(names, found...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".new") })
}

// Epochs rise. One far ahead is an epoch like others: where frames can be forged a cluster
// comes to it, and a leader whose hook is refused for that would never get out of it.
func TestKeeperRefusesAnOldEpoch(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	d.Renew(clock().Add(patience), false)
	d.leads(7)
	d.become(6)
	if res := d.wants(hooks.BecomeLeader, 6, false); !strings.Contains(res.Err.Error(), "epoch 6") {
		t.Errorf("%v", res.Err)
	}
	d.lose(7)
	d.wants(hooks.LoseLeadership, 7, true)
	d.become(7) // it has begun, and has ended
	d.wants(hooks.BecomeLeader, 7, false)
	const far uint64 = 7 + 1<<40
	d.leads(far)
	d.lose(far)
	d.wants(hooks.LoseLeadership, far, true)
	r.ordered(fmt.Sprintf("become-leader:test:7 lose-leadership:test:7 become-leader:test:%d lose-leadership:test:%d", far, far))
}

// A flood has no more begun than the rate, and no more waits than there is room for.
func TestKeeperRefusesAFlood(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: "echo x >>begun"}))
	begun := time.Now()
	const many = 400
	for epoch := range uint64(many) {
		d.become(epoch + 1)
	}
	good := 0
	for range many {
		select {
		case res := <-d.Results():
			if res.OK {
				good++
			}
		case <-time.After(patience):
			t.Fatal("results are missing")
		}
	}
	most := leadershipRate.burst + int(float64(leadershipRate.refill)*time.Since(begun).Seconds()) + 1
	if ran := strings.Count(r.Text("begun"), "x"); good > most || ran > most || good < leadershipRate.burst/2 {
		t.Errorf("%d of %d were begun, %d in order; want at most %d", ran, many, good, most)
	}
	d.lose(many)
	d.wants(hooks.LoseLeadership, many, true)
}

func TestBoundsOfWhatWaits(t *testing.T) {
	b := newBounds()
	ev := new(hooks.Event)
	*ev = eventOf("a", hooks.LoseLeadership, 1)
	for i := range maxQueued {
		if why, _ := b.admit(ev); why != "" {
			t.Fatalf("event %d: %s", i, why)
		}
	}
	if why, _ := b.admit(ev); why == "" {
		t.Error("one more than there is room for")
	}
	b.settled()
	if why, _ := b.admit(ev); why != "" {
		t.Error("there is room again")
	}
	ev.Kind = "evil"
	if why, _ := b.admit(ev); why == "" {
		t.Error("an event that there is not")
	}
}

func TestWhoAreHeirs(t *testing.T) {
	heir := netip.MustParseAddrPort("192.0.2.1:7950")
	for _, tt := range []struct {
		heirs []netip.AddrPort
		want  bool
	}{{nil, true}, {[]netip.AddrPort{heir}, true}, {slices.Repeat([]netip.AddrPort{heir}, maxHeirs), true},
		{slices.Repeat([]netip.AddrPort{heir}, maxHeirs+1), false}, {[]netip.AddrPort{heir, {}}, false}} {
		if got := areHeirs(tt.heirs); got != tt.want {
			t.Errorf("%d heirs: %v", len(tt.heirs), got)
		}
	}
}

// A keeper has one secret: what its agent's frames have announced stays true.
func TestAKeeperHasOneSecret(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(nil)))
	first, second := slices.Repeat([]byte{1}, 32), slices.Repeat([]byte{2}, 32)
	for _, s := range [][]byte{nil, first[:31], first, second, first[:31]} {
		in.k.trust(s)
	}
	if in.k.will.secret != wire.Secret(first) {
		t.Errorf("it has %x", [32]byte(in.k.will.secret))
	}
	heir := netip.MustParseAddrPort("127.0.0.1:9")
	for _, heirs := range [][]netip.AddrPort{{heir}, {{}}} {
		in.k.bequeath(heirs)
	}
	if len(in.k.will.heirs) != 0 {
		t.Errorf("after heirs that are none it has %v", in.k.will.heirs)
	}
}

// An order that makes no sense ends nothing.
func TestKeeperOutlivesNonsense(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note}))
	for _, o := range []order{{Do: toBegin}, {Do: "evil"}, {Do: toStart}, {Do: toEnd}, {Do: toAdopt}, {Do: toRun}, {Do: toOpen}, {Do: toCleanUp}, {Do: toSweep}} {
		d.gives(o)
	}
	d.leads(7)
	if _, err := os.Stat(r.Path("order")); err != nil {
		t.Error(err)
	}
}

// Refusals are a line a second at most, however many orders a hostile agent sends.
func TestRefusalsAreALineASecond(t *testing.T) {
	k := &keeper{out: newOutbox(), bounds: newBounds()}
	refuseMany := func(want int) {
		t.Helper()
		began := now()
		for range 1000 {
			k.noteRefusal("job", "there is none")
		}
		if most := want + int(now().Sub(began)/time.Second); len(k.out.waiting) < want || len(k.out.waiting) > most {
			t.Errorf("%d lines of refusals, want %d", len(k.out.waiting), want)
		}
	}
	refuseMany(1)
	k.bounds.saidAt = now().Add(-time.Second)
	refuseMany(len(k.out.waiting) + 1)
}

// A life has one clean-up: of several at a time each would run the hook beside the others.
func TestKeeperCleansUpOnce(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.config(scripts{hooks.LoseLeadership: note + "sleep 0.2; echo x >ended"}))
	d.recover()
	for range 4 {
		d.gives(order{Do: toCleanUp, Event: d.event(hooks.LoseLeadership, 7)})
	}
	if !d.Lend() {
		t.Error("the keeper hears nothing any more")
	}
	r.UntilFile("ended")
	d.run()
	r.ordered("lose-leadership:unclean-restart:7")
}

// A time that no clock here tells, or that a record cannot hold, ends nothing either.
func TestKeeperOutlivesAnyTime(t *testing.T) {
	r := newRig(t)
	d := r.works()
	d.reload(d.settings.with("tied", "exit 3"))
	was := d.process()
	for _, lease := range []time.Time{time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Unix(0, 1<<62).In(time.FixedZone("odd", 25*3600+1))} {
		o := jobOrder(d.owner, "tied")
		o.Slot = lease
		d.gives(order{Do: toBegin, Lease: lease, Job: &o})
		if res := d.ends(); res.Exit != 3 && !res.TooLate {
			t.Errorf("a lease until %v: %+v", lease, res)
		}
	}
	if is := d.process(); is != was {
		t.Errorf("process %d is gone, and %d in its place", was, is)
	}
}
