package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/test/crash"
	"github.com/bully-agent/bully-agent/wire"
)

// The states of three voters as version 4 left them. n3 led in epoch 1 and was killed; n2 led in epoch 2 then, by the
// vote of n1, which was in maintenance. n1 and n2 were killed while n2 led.
var version4 = map[string]struct {
	former   string
	accepted wire.Epoch // in the state that follows; the zero owner stands for the new id
	promoted uint64
}{
	"n1": {"73844cdf-b1e2-4327-96c8-05b9dad719a1", wire.Epoch{Counter: 2, Owner: mustParse("86d0b998-19c9-4abd-8aa0-445f07d749ab")}, 0},
	"n2": {"86d0b998-19c9-4abd-8aa0-445f07d749ab", wire.Epoch{Counter: 2}, 2},
	"n3": {"cb2827fa-a5d3-4eb3-85c0-d9ffe4ebaa14", wire.Epoch{Counter: 1}, 1},
}

func mustParse(text string) wire.ID {
	id, err := wire.ParseID(text)
	if err != nil {
		panic(err)
	}
	return id
}

func layVersion4(t *testing.T, name, dir string) {
	t.Helper()
	content, err := os.ReadFile("../testdata/state/version4/" + name + ".state")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, dir, content)
}

// promised has both slots of a state of version 4 say that the longest promise was that long.
func promised(t *testing.T, dir string, longest time.Duration) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(content); at += durable.SlotSize {
		slot := content[at:][:binary.BigEndian.Uint16(content[at+6:])]
		binary.BigEndian.PutUint64(slot[16+formerSize+nameHead+len("test")+epochSize:], uint64(longest))
		copy(slot, resum(slot))
	}
	rewrite(t, dir, content)
}

// A host that is upgraded has a key, and so a new id. Counter, hook that is due and maintenance go over; vote and roster,
// which are the former id's, do not, and what was voted for counts as accepted.
func TestStateOfVersion4(t *testing.T) {
	for name, want := range version4 {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			layVersion4(t, name, dir)
			if err := CheckState(dir, "test", name, 5, identity.Hosts{}); err != nil {
				t.Errorf("the roster of the former id keeps it from starting: %v", err)
			}
			s := mustOpen(t, dir)
			former := mustParse(want.former)
			if s.ID == former || s.ID != s.private.Public().ID() || s.ID[6]>>4 != 8 {
				t.Errorf("id %v of before is %v now", former, s.ID)
			}
			if want.accepted.Owner.IsZero() {
				want.accepted.Owner = s.ID
			}
			saved := s.saved
			if saved.MaxCounter < want.accepted.Counter || saved.Accepted != want.accepted || saved.LongestPromise < 400*time.Millisecond || saved.Incarnation != 1 {
				t.Errorf("read %+v, want %v accepted", saved, want.accepted)
			}
			if saved.Promoted.Counter != want.promoted || want.promoted > 0 && saved.Promoted.Owner != former {
				t.Errorf("epoch %v is due, want %d of %v", saved.Promoted, want.promoted, former)
			}
			if !saved.Vote.IsZero() || saved.Roster.Version != 0 || len(saved.Roster.IDs) > 0 {
				t.Errorf("the new id has vote %v and roster %+v", saved.Vote, saved.Roster)
			}
			if isOn := name == "n1"; s.maintenance.isOn != isOn || isOn && s.maintenance.reason != "kernel upgrade" {
				t.Errorf("maintenance is %+v", s.maintenance)
			}
			content := expectVersions(t, dir, stateVersion, stateVersion)
			if bytes.Contains(content[:16+selfSize], former[:]) {
				t.Error("the former id is still there")
			}
			s.close()
			again := mustOpen(t, dir)
			defer again.close()
			if !again.isSame(s) || !same(again.saved, saved) || again.maintenance != s.maintenance {
				t.Errorf("the next start reads %v: %+v", again.ID, again.saved)
			}
		})
	}
}

// All hosts stop, and all start. No token comes twice, nobody leads before the promises of version 4 have ended, the
// hooks that are due run for the epochs of before, and the roster forms anew.
func TestUpgradeOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		c.expecting(3)
		const longest = 30 * time.Second
		for _, h := range c.hosts {
			layVersion4(t, h.name, h.dir)
			promised(t, h.dir, longest)
		}
		begun := time.Now()
		for _, h := range c.hosts {
			c.start(h)
		}
		top := c.hosts[2]
		for c.leader() == nil && time.Since(begun) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if waited := time.Since(begun); waited < longest {
			t.Errorf("somebody leads after %v, and promises of %v may run", waited, longest)
		}
		c.agrees(top)
		if epoch := top.agent.Status().Epoch; epoch.Counter <= 2 {
			t.Errorf("leads in epoch %d, which was before", epoch.Counter)
		}
		for _, h := range c.hosts {
			s := h.agent.Status()
			if s.Roster == nil || !s.Roster.Formed || len(s.Roster.Voters) != 3 {
				t.Errorf("%s: roster %+v", h.name, s.Roster)
			}
			if s.Self.ID == version4[h.name].former {
				t.Errorf("%s has its id of before", h.name)
			}
		}
		if got := top.hooks.ran(); len(got) < 2 || got[0] != "lose-leadership 1 unclean-restart" {
			t.Errorf("n3 ran %q", got)
		}
		if got := c.hosts[1].hooks.ran(); len(got) == 0 || got[0] != "lose-leadership 2 unclean-restart" || len(got)%2 != 1 {
			t.Errorf("n2 ran %q, expected what is due first, and no leadership without its end", got)
		}
		c.stopAll()
	})
}

// A lose hook of a former key's leadership bears the owner of that, also if only the keeper's journal has it, and when it
// is tried again: what the keeper knows of the leadership it knows by both.
func TestOwedByAFormerKey(t *testing.T) {
	former := mustParse(version4["n3"].former)
	s := &seat{state: someHost("test")}
	s.runner = &fakeHooks{fakeOutcomes: fakeOutcomes{owes: hooks.Epoch{Counter: 7, Owner: former.String()}}}
	if got := s.owed(); got != (wire.Epoch{Counter: 7, Owner: former}) {
		t.Errorf("owes %v, want that of %v", got, former)
	}
	var d redo
	d.failed(hooks.Result{Kind: hooks.LoseLeadership, Epoch: 7}, former)
	d.failed(hooks.Result{Kind: hooks.LoseLeadership, Epoch: 7}, s.state.ID)
	if d.epoch.Owner != former.String() {
		t.Errorf("the second try is for %s, want %v", d.epoch.Owner, former)
	}
}

// A crash at any moment of the first start leaves nothing, or the key that was told of; of an upgrade it leaves the state
// of before, or the new one.
func TestCrashOfANewKey(t *testing.T) {
	for _, from := range []string{"nothing", "version 4"} {
		dir := t.TempDir()
		if from != "nothing" {
			layVersion4(t, "n2", dir)
		}
		trace := crash.Record(t, dir)
		trace.Mark(0)
		s := mustOpen(t, dir)
		s.close()
		trace.Mark(1)
		n := trace.Each(func(p crash.Point) {
			var left stateFile
			slots, slot, err := durable.OpenSlots(filepath.Join(p.Dir, stateName), stateFormat)
			if errors.Is(err, os.ErrNotExist) && p.Mark == 0 && from == "nothing" {
				return
			}
			if err == nil {
				slots.Close()
				err = left.decode(slot)
			}
			isFormer := left.private.IsZero() && left.ID.String() == version4["n2"].former && p.Mark == 0
			if err != nil || left.ID != s.ID && !isFormer {
				t.Fatalf("from %s: %v left %v, %v", from, p, left.ID, err)
			}
		})
		t.Logf("from %s: %d points at %d operations", from, n.Points, n.Ops)
		if n.Ops < 4 {
			t.Errorf("from %s: tried %+v", from, n)
		}
	}
}

// Nothing but a directory without a state makes a key: what cannot be read may have voted.
func TestOnlyAnEmptyDirectoryMakesAKey(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jobs.ledger"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	s.close()
	for what, content := range map[string][]byte{"of length 0": nil, "zeros": make([]byte, 2*durable.SlotSize), "text": []byte("state")} {
		rewrite(t, dir, content)
		_, err := openState(dir, "test", identity.Machine{})
		var refused *Refusal
		if !errors.As(err, &refused) || !errors.Is(err, durable.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, stateName)); !bytes.Equal(after, content) {
			t.Errorf("%s: a key was made", what)
		}
	}
}

// Whatever is wrong with a state, the line that refuses it ends with what to do. In quorum mode no backup is asked for: a voter would
// have forgotten its promises. "config check" and "doctor" say it as a start does, and neither changes the file.
func TestEachStateThatIsRefusedHasARemedy(t *testing.T) {
	later := slotOf(someHost("test"), 1, someState(1))
	later[5] = stateVersion + 1
	damaged := slotOf(someHost("test"), 1, someState(1))
	damaged[60] ^= 1
	for name, c := range map[string]struct {
		content         []byte
		atStart, quorum string
	}{
		"empty":              {nil, "move it away: the agent starts with a new id", "move the file away, start the agent as a new node, and forget beta"},
		"damaged":            {damaged, "move it away: the agent starts with a new id", "restore no backup: it lacks this voter's promises"},
		"of a later version": {resum(later), "start that version again", "start that version again"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rewrite(t, dir, c.content)
			for expect, want := range map[int]string{0: c.atStart, 3: c.quorum} {
				checked := CheckState(dir, "test", "beta", expect, identity.Hosts{})
				_, started := openState(dir, "test", identity.Machine{})
				for how, err := range map[string]error{"checked": checked, "started": hintDamaged(started, expect > 0, "beta")} {
					var refused *Refusal
					if !errors.As(err, &refused) || !strings.Contains(refused.Hint, want) || strings.Contains(err.Error()+refused.Hint, "\n") {
						t.Errorf("%s, expect %d: %v; want a line with %q", how, expect, err, want)
					}
				}
			}
			if after, _ := os.ReadFile(filepath.Join(dir, stateName)); !bytes.Equal(after, c.content) {
				t.Error("the file is another")
			}
		})
	}
}

// A key that was made before the settings were written binds to no cluster.
func TestStateBeforeTheSettings(t *testing.T) {
	dir := t.TempDir()
	id, err := Stopped{Dir: dir, Cluster: "default"}.MakeID() // there is no file yet that names the cluster
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckState(dir, "prod", "n1", 0, identity.Hosts{}); err != nil {
		t.Errorf("a check refuses a state in which nobody has lived: %v", err)
	}
	for _, cluster := range []string{"prod", "lab"} {
		s, err := openState(dir, cluster, thisMachine())
		if err != nil {
			t.Fatalf("cluster %s: %v", cluster, err)
		}
		if s.ID != id || s.Cluster != cluster {
			t.Errorf("it is %v of cluster %s, want %v of %s", s.ID, s.Cluster, id, cluster)
		}
		if cluster == "lab" {
			s.saved.Incarnation = 1
			mustWrite(t, s, s.saved)
		}
		s.close()
	}
	if _, err := openState(dir, "prod", thisMachine()); err == nil || !strings.Contains(err.Error(), `belongs to cluster "lab", not "prod"`) {
		t.Errorf("a state in which an agent of lab has lived is taken for prod: %v", err)
	}
}

// A directory that was copied to another machine is refused there, and nothing is written. Where a machine is not known,
// nothing is refused.
func TestStateOfAnotherMachine(t *testing.T) {
	one, another, none := identity.Machine{1}, identity.Machine{2}, identity.Machine{}
	open := func(dir string, here identity.Machine) (*stateFile, error) {
		s, err := openState(dir, "test", here)
		if err == nil {
			s.close()
		}
		return s, err
	}
	dir := t.TempDir()
	if s, err := open(dir, one); err != nil || s.machine != one {
		t.Fatalf("machine %x, error %v", s.machine, err)
	}
	before, _ := os.ReadFile(filepath.Join(dir, stateName))
	var refused *Refusal
	_, err := open(dir, another)
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "this directory was copied from another machine") ||
		!strings.Contains(refused.Hint, "bully-agent id new") || !strings.Contains(refused.Hint, "bully-agent id keep") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, stateName)); !bytes.Equal(before, after) {
		t.Error("the refusal changed the file")
	}
	for _, here := range []identity.Machine{none, one} {
		if s, err := open(dir, here); err != nil || s.machine != one {
			t.Errorf("on machine %x: %v", here, err)
		}
	}

	dir = t.TempDir() // begun without a machine-id: the first one that there is counts
	if s, err := open(dir, none); err != nil || !s.machine.IsZero() {
		t.Fatalf("machine %x, error %v", s.machine, err)
	}
	s, err := openState(dir, "test", one)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, s.saved)
	s.close()
	if _, err := open(dir, another); err == nil {
		t.Error("a copy is not noticed")
	}
}

func TestThisMachine(t *testing.T) {
	defer func(file string) { machineIDFile = file }(machineIDFile)
	machineIDFile = filepath.Join(t.TempDir(), "machine-id")
	if m := thisMachine(); !m.IsZero() {
		t.Errorf("without a file it is %x", m)
	}
	if err := os.WriteFile(machineIDFile, []byte("0d53b8c34749f9b28be69d288054d380\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if m := thisMachine(); m != goldenHost(t).machine {
		t.Errorf("it is %x", m)
	}
}

// A state that others may read has shown them this host's key.
func TestStateThatOthersMayRead(t *testing.T) {
	for mode, want := range map[os.FileMode]string{0o604: "readable by everyone", 0o640: "readable by group"} {
		dir := t.TempDir()
		mustOpen(t, dir).close()
		path := filepath.Join(dir, stateName)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := openState(dir, "test", identity.Machine{})
		var refused *Refusal
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "private key") ||
			!strings.Contains(refused.Hint, "chmod 600 "+path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	dir := t.TempDir()
	mustOpen(t, dir).close()
	if info, err := os.Stat(filepath.Join(dir, stateName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("it is made with mode %v, %v", info.Mode(), err)
	}
}

// However a state is printed, its key does not show.
func TestNothingShowsTheKeyOfAState(t *testing.T) {
	s := goldenHost(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s", "%d"} {
		text := fmt.Sprintf(verb, *s)
		for _, secret := range []string{"0001020304", "0 1 2 3 4", "0x0, 0x1, 0x2"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the key", text)
			}
		}
	}
}

// What a new id has of the former.
func TestBequeathed(t *testing.T) {
	former, id, other := wire.ID{1}, wire.ID{2}, wire.ID{3}
	was := someState(9)
	was.Accepted, was.Vote = wire.Epoch{Counter: 8, Owner: former}, wire.Epoch{Counter: 9, Owner: other}
	want := election.Saved{Incarnation: was.Incarnation, MaxCounter: 9, Accepted: was.Vote, Promoted: was.Promoted, LongestPromise: was.LongestPromise}
	if got := bequeathed(was, former, id); !same(got, want) {
		t.Errorf("the vote may have led: %+v, want %+v", got, want)
	}
	was.Accepted, was.Vote = wire.Epoch{Counter: 9, Owner: former}, wire.Epoch{Counter: 9, Owner: former}
	want.Accepted = wire.Epoch{Counter: 9, Owner: id}
	if got := bequeathed(was, former, id); !same(got, want) {
		t.Errorf("it led itself: %+v, want %+v", got, want)
	}
	if got := bequeathed(election.Saved{}, wire.ID{}, id); !same(got, election.Saved{}) {
		t.Errorf("nothing gives %+v", got)
	}
}
