package guard

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	for _, m := range []message{{kindRenew, 1 << 60, ""}, {kindRenew, 0, ""}, {kindStop, 5, "lease-expired"}, {kindSignal, int64(unix.SIGHUP), ""}} {
		if got, err := decode(m.encode()); err != nil || got != m {
			t.Errorf("%+v was read as %+v (%v)", m, got, err)
		}
	}
	if _, err := decode(message{kind: kindRenew}.encode()[:8]); err == nil {
		t.Error("a message that is too short was read")
	}
	if got, _ := decode(message{kind: kindStop, cause: strings.Repeat("x", 1000)}.encode()); len(got.cause) != maxCause {
		t.Errorf("a cause of %d bytes", len(got.cause))
	}
}

func TestAReportFitsAMessage(t *testing.T) {
	long := strings.Repeat("\x01", 10_000)
	r := Report{Reach: long, Err: long, Unnoted: long}
	if n := len(encodeReport(r)); n > maxReport {
		t.Errorf("%d bytes", n)
	}
	if r.Err != long {
		t.Error("what is recorded was cut, too")
	}
}

// A caller that is stopped between its own look at the clock and the conversion
// must not get a later deadline for that.
func TestConvertErrsOnTheSafeSide(t *testing.T) {
	const pause = time.Hour
	late := func() time.Time { return clock().Add(pause) } // the clock is read an hour after ours
	deadline := clock().Add(2 * pause)
	if got := sidecar.Convert(deadline, late).Sub(now()); got > pause {
		t.Errorf("%v are left, want an hour at most", got)
	}
	if got := sidecar.Convert(time.Time{}, nil); got != 0 {
		t.Errorf("no deadline became %d", got)
	}
	if got := sidecar.Convert(clock().Add(-1000*time.Hour), clock); got <= 0 || got > now() {
		t.Errorf("a deadline long ago became %d, which must not be none", got)
	}
}

func TestEarlier(t *testing.T) {
	for _, tt := range [][3]instant{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {4, 5, 4}, {5, 4, 4}} {
		if got := earlier(tt[0], tt[1]); got != tt[2] {
			t.Errorf("earlier of %d and %d is %d", tt[0], tt[1], got)
		}
	}
}

func TestWhereACgroupIs(t *testing.T) {
	const (
		v1      = "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		unified = "25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		spaced  = "25 20 0:22 / /mnt/c\\040g rw - cgroup2 none rw\n"
		partial = "25 20 0:22 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	)
	for _, tt := range []struct{ mounts, groups, want string }{
		{v1 + unified, "0::/system.slice/a.service\n", "/sys/fs/cgroup/system.slice/a.service"},
		{unified, "2:cpu:/x\n0::/\n", "/sys/fs/cgroup"},
		{spaced, "0::/a b\n", "/mnt/c g/a b"},
		{partial, "0::/docker/ab/c\n", "/sys/fs/cgroup/c"},
		{partial, "0::/docker/ab\n", "/sys/fs/cgroup"},
		{partial, "0::/docker/abc\n", ""},
		{unified, "0::/../other\n", ""},
		{v1, "0::/\n", ""},
		{unified, "2:cpu:/x\n", ""},
		{"", "", ""},
	} {
		got, err := locate(tt.mounts, tt.groups)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q in %q: %q (%v), want %q", tt.groups, tt.mounts, got, err, tt.want)
		}
	}
}

// KILL is sent in time for all to be dead when it must, and TERM before it.
func TestWhenKillFollowsTerm(t *testing.T) {
	const second = instant(time.Second)
	for _, tt := range []struct {
		name  string
		g     guardian
		grace time.Duration
		after time.Duration
	}{
		{"no deadline", guardian{}, 5 * time.Second, 5 * time.Second},
		{"a far deadline", guardian{deadline: 100 * second}, 5 * time.Second, 5 * time.Second},
		{"a deadline", guardian{deadline: 11 * second}, 5 * time.Second, time.Second - run.KillSlack},
		{"stop within", guardian{deadline: 99 * second, due: 10*second + second/10}, 5 * time.Second, 90 * time.Millisecond},
		{"a deadline that has passed", guardian{deadline: 9 * second}, 5 * time.Second, run.MinGrace},
	} {
		g := tt.g
		g.asked, g.order = 10*second, &order{Grace: tt.grace}
		if got := g.killBy().Sub(g.asked); got != tt.after {
			t.Errorf("%s: %v after TERM, want %v", tt.name, got, tt.after)
		}
	}
}

// A further Stop can only shorten the time; one without a bound leaves it.
func TestAFurtherStopOnlyShortens(t *testing.T) {
	for _, tt := range []struct{ first, then, want instant }{{10, 20, 10}, {20, 10, 10}, {10, 0, 10}, {0, 10, 10}, {0, 0, 0}} {
		g := guardian{asked: 1}
		g.obey(message{kind: kindStop, number: int64(tt.first)})
		g.obey(message{kind: kindStop, number: int64(tt.then)})
		if g.due != tt.want {
			t.Errorf("due at %d, and then at %d: it is due at %d, want %d", tt.first, tt.then, g.due, tt.want)
		}
	}
}

func TestWhenASilentAgentIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		order  order
		before time.Duration
	}{
		{order{Budget: 100 * time.Millisecond, Grace: 5 * time.Second}, 100 * time.Millisecond},
		{order{Budget: 100 * time.Millisecond, Grace: 10 * time.Millisecond}, 30 * time.Millisecond},
	} {
		g := guardian{order: &tt.order, deadline: instant(time.Hour)}
		if got := g.deadline.Sub(g.askBy()); got != tt.before {
			t.Errorf("%+v: %v before the deadline, want %v", tt.order, got, tt.before)
		}
	}
}

func TestReportsForPeople(t *testing.T) {
	for _, tt := range []struct {
		r    Report
		want string
	}{
		{Report{Stage: Prepared}, "prepared"},
		{Report{Stage: Running, Group: 12}, "running in process group 12"},
		{Report{Stage: Ended, Group: 12, Exit: 3}, "ended with exit code 3"},
		{Report{Stage: Ended, Group: 12, Exit: -1, Signal: 15, Cause: "stepped-down"}, "ended by signal 15, cause stepped-down"},
		{Report{Stage: Ended, Exit: -1, Err: "no such file"}, "ended: no such file"},
	} {
		if got := tt.r.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A crash cuts the last line; what came before it counts. A record without a line
// started nothing.
func TestRecordsAfterACrash(t *testing.T) {
	dir := t.TempDir()
	rec, err := create(Config{Records: dir, Name: "job", Epoch: rigEpoch})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rec.note(Report{Stage: Prepared}, true), rec.note(Report{Stage: Running, Group: 1 << 30}, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.file.WriteString(`{"name":"job","mark":"x","rep`); err != nil {
		t.Fatal(err)
	}
	rec.file.Close()
	empty := filepath.Join(dir, "guard-empty.json")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(filepath.Join(dir, "other.json"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := Recover(t.Context(), dir)
	if err != nil || len(got) != 1 || got[0].Report.Stage != Running || got[0].Epoch != rigEpoch || got[0].Name != "job" {
		t.Errorf("%+v (%v)", got, err)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("the empty record is still there")
	}
	if got, err := Recover(t.Context(), filepath.Join(dir, "missing")); err != nil || got != nil {
		t.Errorf("no directory: %+v (%v)", got, err)
	}
}

// A record of before the last boot names processes of now that are others.
func TestARecordOfAnotherBootKillsNothing(t *testing.T) {
	r := Record{Boot: "another", Mark: "x", Report: Report{Stage: Running, Group: os.Getpid(), Cgroup: "/nonexistent"}}
	if err := r.endOrphans(); err != nil {
		t.Error(err)
	}
}

func TestGuardByHand(t *testing.T) {
	if _, err := inherit(); !errors.Is(err, sidecar.ErrByHand) {
		t.Errorf("%v, want %v", err, sidecar.ErrByHand)
	}
}

// The kernel's promise on which a guard with a cgroup relies: one write ends all
// that was started inside, in whatever session.
func TestCgroupKillEndsSessions(t *testing.T) {
	r := newRig(t)
	cg, err := newCgroup("", "bully-test-"+filepath.Base(filepath.Dir(r.Dir.Name)))
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "cd "+r.Dir.Name+"; trap '' TERM; setsid sh -c 'echo x >up; sleep 1000' & wait")
	cmd.Env = r.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cg.fd.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.UntilFile("up")
	if !populated(cg.dir) {
		t.Error("a cgroup with processes is not populated")
	}
	if err := killCgroup(cg.dir); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r.Until("the death of all", func() bool { return !populated(cg.dir) && len(r.Living()) == 0 })
	if err := removeCgroup(cg.dir); err != nil {
		t.Error(err)
	}
	if populated(cg.dir) || removeCgroup(cg.dir) != nil {
		t.Error("a cgroup that is gone is not empty")
	}
}
