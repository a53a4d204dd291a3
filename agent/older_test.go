package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// olderLife starts n3 some lives long, and gives the state directory that it had in the first.
func (c *cluster) olderLife(lives int) (backup string) {
	c.t.Helper()
	back := c.hosts[2]
	for _, h := range c.hosts {
		c.start(h)
	}
	c.agrees(back)
	c.kill(back)
	backup = filepath.Join(c.t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(back.dir)); err != nil {
		c.t.Fatal(err)
	}
	for range lives {
		c.start(back)
		c.agrees(back)
		time.Sleep(2 * time.Second) // the others have its receipt on their disks
		c.kill(back)
	}
	if err := errors.Join(os.Chmod(filepath.Join(backup, stateName), 0o600), os.Chmod(filepath.Join(backup, receiptsName), 0o600)); err != nil {
		c.t.Fatal(err)
	}
	back.dir = backup
	return backup
}

// endsOlder checks that the agent of a host ends, since its state is an older copy.
func (c *cluster) endsOlder(h *testHost, within time.Duration) {
	c.t.Helper()
	var refused *Refusal
	select {
	case err := <-h.done:
		if h.agent = nil; !errors.Is(err, ErrOlder) || !errors.As(err, &refused) {
			c.t.Errorf("%s ended with %v, expected that its state is an older copy", h.name, err)
		}
	case <-time.After(within):
		c.t.Fatalf("%s goes on with an older state", h.name)
	}
}

// A host is started with a state directory of two lives ago. The others show it the receipt of its last life, though one of
// them has started again meanwhile: it ends before it could lead. It is refused from then on, before anything is sent, until it
// is a new host.
func TestAnOlderCopyOfTheStateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		backup := c.olderLife(2)
		c.agrees(c.hosts[1])
		c.kill(c.hosts[0])
		c.start(c.hosts[0])
		c.agrees(c.hosts[1])
		old := c.hosts[2]
		had, log := len(old.hooks.ran()), old.logging()
		c.start(old)
		c.endsOlder(old, 3*time.Second)
		if n := log.with("join failed"); n != 0 {
			t.Errorf("before it says why it ends, it says %d times that it cannot join", n)
		}
		if ran := old.hooks.ran()[had:]; len(ran) > 1 || len(ran) == 1 && ran[0] != "lose-leadership 1 unclean-restart" {
			t.Errorf("it has run %v", ran)
		}
		before, _ := os.ReadFile(filepath.Join(backup, stateName))
		if _, err := openState(backup, "test", identity.Machine{}); !errors.Is(err, ErrOlder) {
			t.Errorf("the next start finds %v", err)
		}
		if after, _ := os.ReadFile(filepath.Join(backup, stateName)); string(after) != string(before) {
			t.Error("the refusal changed the state")
		}
		if _, err := (Stopped{Dir: backup, Cluster: "test"}).KeepID(); !errors.Is(err, ErrOlder) {
			t.Errorf("id keep: %v", err)
		}
		if _, _, err := (Stopped{Dir: backup, Cluster: "test"}).NewID(func(wire.ID) error { return nil }); err != nil {
			t.Fatal(err)
		}
		c.start(old)
		c.agrees(old)
		c.stopAll()
	})
}

// Its last life has left, so nobody calls it any more: the host that it joins by closes the stream, and shows the receipt all the same.
func TestAnOlderCopyOfAHostThatLeftEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 2)
		back, first := c.hosts[0], c.hosts[1]
		leaves := func() {
			back.stop()
			if err := <-back.done; err != nil {
				t.Errorf("it stopped with %v", err)
			}
			back.agent = nil
		}
		c.start(first)
		c.start(back)
		c.agrees(first)
		leaves()
		backup := filepath.Join(t.TempDir(), "backup")
		if err := os.CopyFS(backup, os.DirFS(back.dir)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.start(back)
			c.agrees(first)
			leaves()
		}
		if err := errors.Join(os.Chmod(filepath.Join(backup, stateName), 0o600), os.Chmod(filepath.Join(backup, receiptsName), 0o600)); err != nil {
			t.Fatal(err)
		}
		back.dir = backup
		c.start(back)
		c.endsOlder(back, 3*time.Second)
		c.agrees(first)
		c.stopAll()
	})
}

// It came to lead before it met a host that has the receipt: it lets go first.
func TestAnOlderLeaderLetsGoInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSealedCluster(t, 3)
		c.olderLife(2)
		old := c.hosts[2]
		c.lan.Partition([]string{"n1", "n2"}, []string{"n3"})
		had := len(old.hooks.ran())
		c.start(old)
		for end := time.Now().Add(time.Minute); !old.agent.Status().LeaderIsSelf; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not lead on its side of the cut")
			}
		}
		c.lan.Heal()
		c.endsOlder(old, time.Minute)
		want := []string{"lose-leadership 1 unclean-restart", "become-leader 2 boot", "lose-leadership 2 stopped"}
		if ran := old.hooks.ran()[had:]; !slices.Equal(ran, want) {
			t.Errorf("it has run %v, expected %v", ran, want)
		}
		c.agrees(c.hosts[1])
		c.stopAll()
	})
}

func someReceipts() []session.Receipt {
	return []session.Receipt{{ID: wire.ID{1}, Incarnation: 1, Text: identity.Receipt{2}}, {ID: wire.ID{3}, Incarnation: 1<<32 - 1, Text: identity.Receipt{15: 4}}}
}

// What cannot be written is tried again, and said once.
func TestReceiptsAreWrittenAgain(t *testing.T) {
	dir, told := t.TempDir(), &told{}
	isBroken := true
	stop := durable.Watch(func(durable.Op) error {
		if isBroken {
			return os.ErrPermission
		}
		return nil
	})
	defer stop()
	f := &receiptFile{path: filepath.Join(dir, receiptsName), log: hclog.New(&hclog.LoggerOptions{Output: told}), port: func(since uint64) ([]session.Receipt, uint64) {
		if since == 7 {
			return nil, 7
		}
		return someReceipts(), 7
	}}
	for range 3 {
		f.write()
	}
	isBroken = false
	f.write()
	if got := readReceipts(dir, f.log); !slices.Equal(got, someReceipts()) || told.count("not saved") != 1 {
		t.Errorf("read %v, said it %d times", got, told.count("not saved"))
	}
	isBroken = true
	if f.write(); told.count("not saved") != 1 {
		t.Error("it writes what is on the disk")
	}
}

// A disk that hangs keeps no agent from stopping.
func TestReceiptsWaitForNoDiskAtTheEnd(t *testing.T) {
	hangs, thaw := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(hangs) })
	f := &receiptFile{look: make(chan struct{}, 1), port: func(uint64) ([]session.Receipt, uint64) {
		begun()
		<-thaw
		return nil, 0
	}}
	defer close(thaw)
	f.mayWrite()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); untilDisk(ctx, f.run) }()
	<-hangs
	stop()
	select {
	case <-over:
	case <-time.After(5 * lastFiles):
		t.Error("it waits for the disk")
	}
}

// A file that is no list of receipts is kept aside, and the agent begins anew.
func TestReceiptsThatAreNone(t *testing.T) {
	good := string(appendReceipts(nil, someReceipts()))
	for _, bad := range []string{"", "hello", good[1:], good[:len(good)-2], good + "x", good + "\n", receiptsHead + "1 2 3\n"} {
		dir := t.TempDir()
		path := filepath.Join(dir, receiptsName)
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readReceipts(dir, hclog.NewNullLogger()); got != nil {
			t.Errorf("%q is read as %v", bad, got)
		}
		if _, err := os.Stat(path + badSuffix); err != nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzReceipts(f *testing.F) {
	f.Add(appendReceipts(nil, someReceipts()))
	f.Add([]byte(receiptsHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseReceipts(b)
		if err != nil {
			return
		}
		if again, err := parseReceipts(appendReceipts(nil, all)); err != nil || !slices.Equal(again, all) {
			t.Fatalf("%v comes back as %v: %v", all, again, err)
		}
	})
}
