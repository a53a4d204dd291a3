package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

func TestACommandRunsAndItsExitCodeComesBack(t *testing.T) {
	t.Parallel()
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("exit 42")
		s.Cgroup = cgroup
		report := r.wait(r.start(s.config()))
		if report.Stage != Ended || report.Exit != 42 || report.Cause != "" || report.Err != "" {
			t.Errorf("report %+v, want exit code 42", report)
		}
		if (cgroup == "") != (report.Cgroup != "") {
			t.Errorf("cgroup %q", report.Cgroup)
		}
		if got := r.theRecord(); got.Report != report || got.Name != t.Name() || got.Epoch.Counter != 7 {
			t.Errorf("record %+v, want %+v", got, report)
		}
	})
}

// What the command finds, and that its streams end with it although the holder had
// them too.
func TestSurroundings(t *testing.T) {
	r := newRig(t)
	in, hand, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.settings("").config()
	cfg.Argv = []string{"/bin/sh", "-c", `pwd; cat; tr '\0' '\n' </proc/self/environ; ls -1 /proc/self/fd | wc -l; echo $$ $(cut -d' ' -f5,6 /proc/$$/stat); cat >&2`}
	cfg.Env = []string{"A=b\xff"} // a byte that is not UTF-8
	h := r.startWith(cfg, in, out, nil)
	in.Close()
	out.Close()
	fmt.Fprint(hand, "input\n")
	hand.Close()
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	report := r.wait(h)
	words := strings.Fields(string(text))
	if len(words) < 7 || words[0] != "/" || words[1] != "input" || words[2] != "A=b\xff" || !strings.HasPrefix(words[3], "BULLY_HOLDER=") {
		t.Fatalf("it found %q", words)
	}
	if own := fmt.Sprint(report.Group); words[len(words)-3] != own || words[len(words)-2] != own || words[len(words)-1] != fmt.Sprint(report.Holder) {
		t.Errorf("it is %q, want process and group %s in the holder's session %d", words[len(words)-3:], own, report.Holder)
	}
	plain := exec.Command("/bin/sh", "-c", "ls -1 /proc/self/fd | wc -l") // this process may have inherited some
	want, err := plain.Output()
	fds, _ := strconv.Atoi(words[len(words)-4])
	if most, atoi := strconv.Atoi(strings.TrimSpace(string(want))); errors.Join(err, atoi) != nil || fds > most {
		t.Errorf("it has %d descriptors, want at most %s (%v)", fds, want, err)
	}
}

// A command is not started when its time has ended: its agent or the holder was
// stopped on the way.
func TestTooLateToStart(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Config){
		"the lease has ended":                      func(c *Config) { c.Deadline = clock().Add(-time.Second) },
		"the lease has ended, it could run longer": func(c *Config) { c.StartBy = clock().Add(-time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			cfg := r.settings("touch started").config()
			set(&cfg)
			report := r.wait(r.start(cfg))
			if report.Stage != Ended || report.Group != 0 || report.Cause != AgentDied || !report.Silent || report.Err != errOver.Error() {
				t.Errorf("report %+v", report)
			}
			if _, err := os.Stat(r.Path("started")); err == nil {
				t.Error("it was started")
			}
		})
	}
}

// The time to start in has no part in what was started, and moves with the lease:
// a holder that took its time to start looks at what came meanwhile.
func TestTimeToStartIn(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("echo x >started; exec sleep 1000").config()
	cfg.StartBy = clock().Add(patience)
	h := r.start(cfg)
	r.UntilFile("started")
	h.Renew(Terms{StartBy: clock().Add(-time.Second)})
	h.Stop("enough", 0)
	if report := r.wait(h); report.Cause != "enough" {
		t.Errorf("report %+v", report)
	}
	late := holding{order: &order{}, terms: Terms{StartBy: second(1)}}
	if !late.isOver(now()) || late.report.Cause != AgentDied {
		t.Errorf("started after its time, report %+v", late.report)
	}
	late = holding{order: &order{}, terms: Terms{StartBy: now().Add(patience)}}
	if late.isOver(now()) {
		t.Error("not started before its time has ended")
	}
	late.obey(letter{Terms: Terms{StartBy: second(1)}})
	late.obey(letter{})
	if late.isOver(now()) {
		t.Error("not started though there is no bound any more")
	}
	late.obey(letter{Terms: Terms{StartBy: second(1)}})
	if !late.isOver(now()) {
		t.Error("what the agent said of the time to start in was not taken")
	}
}

// What has come while a holder was stopped counts when it comes to start its command: the
// lease may have been renewed.
func TestALateHolderReadsWhatHasCome(t *testing.T) {
	for name, tt := range map[string]struct {
		said   letter
		isOver bool
	}{
		"nothing of the lease": {letter{Terms: Terms{StartBy: second(1)}, Signal: int(unix.SIGHUP)}, true},
		"more time":            {letter{Terms: Terms{StartBy: now().Add(patience)}}, false},
		"no bound any more":    {letter{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			agent, theirs, err := sidecar.SocketPair("holder")
			if err != nil {
				t.Fatal(err)
			}
			defer agent.Close()
			defer theirs.Close()
			if _, err := agent.Write(encode(tt.said)); err != nil {
				t.Fatal(err)
			}
			late := holding{order: &order{}, terms: Terms{StartBy: second(1)}, alive: true, socket: int(theirs.Fd())}
			if isOver := late.isOver(now()); isOver != tt.isOver {
				t.Errorf("over is %v, want %v; report %+v", isOver, tt.isOver, late.report)
			}
		})
	}
}

// A command that nobody would look for leaves nothing on disk.
func TestNoRecords(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("sleep 1000 & exit 3").config()
	cfg.Records = NoRecords
	h := r.start(cfg)
	if report := r.wait(h); report.Exit != 3 || report.Err != "" {
		t.Errorf("report %+v", report)
	}
	if err := h.record.remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(r.Path("records")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCommandsThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	for argv, want := range map[string]syscall.Errno{"/nonexistent": unix.ENOENT, "/etc/passwd": unix.EACCES, "/": unix.EACCES} {
		t.Run(argv, func(t *testing.T) {
			r := newRig(t)
			cfg := r.settings("").config()
			cfg.Argv = []string{argv}
			report := r.wait(r.start(cfg))
			if report.Stage != Ended || report.Group != 0 || report.Errno != int(want) || report.Err == "" || report.Exit != -1 {
				t.Errorf("report %+v, want errno %d", report, want)
			}
		})
	}
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	dir, argv := t.TempDir(), []string{"/bin/true"}
	for name, cfg := range map[string]Config{
		"no directory for its record": {},
		"must not be negative":        {Records: dir, Grace: -1},
		"command []: expected":        {Records: dir},
		"expected its path":           {Records: dir, Argv: []string{"sleep"}},
		"no such file":                {Records: filepath.Join(dir, "missing"), Argv: argv},
		"start holder: fork/exec":     {Records: dir, Argv: argv, program: "/nonexistent"},
		"pass on descriptors":         {Records: dir, Argv: argv, Others: []int{1 << 30}},
	} {
		if err := New(cfg).Start(nil, nil, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What could not be started leaves no descriptor open.
func TestAFailedStartLeavesNothingOpen(t *testing.T) {
	sockets := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()
	for range 10 {
		if New(Config{Records: NoRecords, Argv: []string{"/bin/true"}, Others: []int{1 << 30}}).Start(nil, nil, nil) == nil {
			t.Fatal("it started")
		}
	}
	if after := sockets(); after != before {
		t.Errorf("%d sockets are open, want %d", after, before)
	}
}

// No start that cannot be noted first.
func TestAFullDiskStartsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	r := newRig(t)
	if err := unix.Mount("small", r.Path("records"), "tmpfs", 0, "size=4k"); err != nil {
		t.Skip("mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(r.Path("records"), unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(r.Path("records"), "fill"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	report := r.wait(r.start(r.settings("echo >ran; sleep 1000").config()))
	if report.Group != 0 || !strings.Contains(report.Err, "no space left") {
		t.Errorf("report %+v, want that there is no space left", report)
	}
	if _, err := os.Stat(r.Path("ran")); err == nil {
		t.Error("it ran")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		within       time.Duration
		signal       int
		exit         int
	}{
		{"heeds TERM", "trap 'echo x >clean; exit 3' TERM; echo x >up; while :; do sleep 0.01; done", 0, 0, 3},
		{"dies of TERM", "echo x >up; exec sleep 1000", 0, int(unix.SIGTERM), -1},
		{"ignores TERM", "trap '' TERM; echo x >up; while :; do sleep 0.01; done", 0, int(unix.SIGKILL), -1},
		{"ignores TERM in a hurry", "trap '' TERM; echo x >up; while :; do sleep 0.01; done", 20 * time.Millisecond, int(unix.SIGKILL), -1},
		{"is stopped", "echo x >up; kill -STOP $$", 0, int(unix.SIGTERM), -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			s := r.settings(tt.script)
			if tt.within > 0 {
				s.Grace = patience
			}
			h := r.start(s.config())
			r.UntilFile("up")
			h.Stop("lease-expired", tt.within)
			report := r.wait(h)
			if tt.within > 0 && strings.Contains(report.Err, "the holder died") {
				return // it had 18 ms for it, which a loaded machine may not give it: then the agent does it
			}
			if report.Cause != "lease-expired" || report.Signal != tt.signal || report.Exit != tt.exit || report.Err != "" {
				t.Errorf("report %+v", report)
			}
			if tt.name == "heeds TERM" && r.Text("clean") == "" {
				t.Error("it was not let clean up")
			}
		})
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	r := newRig(t)
	h := r.start(r.settings("trap 'echo x >got; exit 0' HUP; echo x >up; while :; do sleep 0.01; done").config())
	r.UntilFile("up")
	h.Signal(unix.SIGHUP)
	if report := r.wait(h); r.Text("got") == "" || report.Exit != 0 || report.Cause != "" {
		t.Errorf("report %+v", report)
	}
}

// What the first process leaves behind ends with it, wherever it hides.
func TestStragglersAreSwept(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"in the group":            "sleep 1000 & exit 5",
		"ignores TERM":            "(trap '' TERM; sleep 1000) & exit 5",
		"in a session of its own": "setsid sh -c 'echo x >up; exec sleep 1000' & while [ ! -s up ]; do sleep 0.01; done; exit 5",
		"sessions in sessions":    "setsid sh -c 'setsid sh -c \"setsid sleep 1000 & echo x >up; sleep 1000\" & sleep 1000' & while [ ! -s up ]; do sleep 0.01; done; exit 5",
	} {
		t.Run(name, func(t *testing.T) {
			reaches(t, func(t *testing.T, cgroup string) {
				r := newRig(t)
				s := r.settings(script)
				s.Cgroup = cgroup
				report := r.wait(r.start(s.config()))
				if report.Exit != 5 || report.Cause != "" || report.Err != "" {
					t.Errorf("report %+v, want exit code 5", report)
				}
				if left := r.Living(); len(left) > 0 {
					t.Errorf("%d processes live", len(left))
				}
			})
		})
	}
}

// What would end or stop another process does nothing to a holder.
func TestAHolderDropsSignals(t *testing.T) {
	r := newRig(t)
	h := r.start(r.settings("echo x >up; exec sleep 1000").config())
	r.UntilFile("up")
	pid := r.awaitStarted(h).Holder
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
		unix.SIGALRM, unix.SIGTSTP, unix.SIGCHLD} {
		if err := unix.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	h.Stop("asked", 0)
	if report := r.wait(h); report.Cause != "asked" || report.Signal != int(unix.SIGTERM) || report.Err != "" {
		t.Errorf("report %+v", report)
	}
	if ignored := r.Text("up"); ignored == "" {
		t.Error("the command never ran")
	}
}

// The deadline moves with each renewal, and none is no deadline.
func TestRenew(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("echo x >up; exec sleep 1000").config()
	cfg.Deadline = clock().Add(patience)
	h := r.start(cfg)
	r.UntilFile("up")
	h.Renew(Terms{Deadline: clock().Add(150 * time.Millisecond)})
	h.Renew(Terms{Deadline: time.Time{}})
	h.Renew(Terms{Deadline: clock().Add(400 * time.Millisecond)})
	from := now()
	report := r.wait(h)
	if report.Cause != AgentDied || !report.Silent {
		t.Errorf("report %+v, want that the agent is silent", report)
	}
	if took := now().Sub(from); took < 250*time.Millisecond {
		t.Errorf("ended after %v, want a budget of 100 ms before 400 ms", took)
	}
}

// A holder that was killed takes its command with it, and what that started.
func TestAHolderIsKilled(t *testing.T) {
	t.Parallel()
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("setsid sleep 1000 & sleep 1000 & echo x >up; wait")
		s.Cgroup = cgroup
		h := r.start(s.config())
		r.UntilFile("up")
		if err := unix.Kill(r.awaitStarted(h).Holder, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		report := r.wait(h)
		if report.Stage != Ended || !strings.Contains(report.Err, "the holder died: signal: killed") {
			t.Errorf("report %+v", report)
		}
		if left := r.Living(); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
		if (run.Cgroup{Dir: report.Cgroup}).IsPopulated() {
			t.Error("the cgroup is not empty")
		}
	})
}

// A holder that is stopped and told to stop is killed in time, also if it is told so twice.
func TestAStoppedHolderIsOverruled(t *testing.T) {
	t.Parallel()
	for name, isAsked := range map[string]bool{"at once": false, "in a hurry": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.start(r.settings("trap '' TERM; echo x >up; while :; do sleep 0.01; done").config())
			r.UntilFile("up")
			if err := unix.Kill(r.awaitStarted(h).Holder, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if isAsked {
				h.Stop("stepped-down", time.Hour)
			}
			h.Stop("lease-expired", 50*time.Millisecond)
			if report := r.wait(h); !strings.Contains(report.Err, "the holder died") || len(r.Living()) > 0 {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// A holder that ends its command without being told, and is stopped in the midst of that, is
// killed when it has worked for as long as it may.
func TestAHolderThatIsStoppedInAnEndingIsOverruled(t *testing.T) {
	t.Parallel()
	for _, cause := range []string{AgentDied, LeaseLost} {
		t.Run(cause, func(t *testing.T) {
			r := newRig(t)
			h := r.start(r.settings("echo x >up; exec sleep 1000").config())
			r.UntilFile("up")
			report := r.awaitStarted(h)
			if err := unix.Kill(report.Holder, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			h.mu.Lock()
			h.working = 50 * time.Millisecond
			h.mu.Unlock()
			report.Stage, report.Cause = Ending, cause
			h.hear(encode(report))
			if report := r.wait(h); !strings.Contains(report.Err, "the holder died") || report.Cause != cause || len(r.Living()) > 0 {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// What the first process leaves behind has TERM and a grace, as the command has.
func TestStragglersAreAskedFirst(t *testing.T) {
	t.Parallel()
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("(trap 'echo x >asked; exit 0' TERM; echo x >up; while :; do sleep 0.01; done) & until [ -s up ]; do sleep 0.01; done; exit 5")
		s.Cgroup, s.Grace = cgroup, patience
		if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" || r.Text("asked") == "" {
			t.Errorf("report %+v; the straggler was asked: %q", report, r.Text("asked"))
		}
	})
}

// Where no cgroup can be made a command runs without one.
func TestWithoutACgroup(t *testing.T) {
	r := newRig(t)
	s := r.settings("exit 5")
	s.Cgroup = r.Path("nowhere")
	if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" || report.Cgroup != "" {
		t.Errorf("report %+v", report)
	}
}

func TestForget(t *testing.T) {
	r := newRig(t)
	h := r.start(r.settings("exit 0").config())
	r.wait(h)
	if err := h.record.remove(); err != nil {
		t.Fatal(err)
	}
	if records := r.recovered(); len(records) != 0 {
		t.Errorf("records %+v", records)
	}
}

// Kill leaves a command that takes no notice of TERM no grace, also one that it has had.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, isAsked := range []bool{false, true} {
		t.Run(fmt.Sprintf("asked before: %v", isAsked), func(t *testing.T) {
			r := newRig(t)
			s := r.settings("trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done")
			s.Grace = time.Hour
			h := r.start(s.config())
			r.PID("pid")
			if isAsked {
				h.Stop("asked", 0)
			}
			h.Kill("killed")
			if report := r.wait(h); report.Signal != int(unix.SIGKILL) || report.Err != "" {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A holder is small, since it lives beside each long job, and keeps nothing of the
// command's: who reads its output sees the end when the command has ended.
func TestAHolderHoldsLittle(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("exec sleep 1000").config()
	h := r.startWith(cfg, nil, os.Stdout, os.Stdout)
	pid := r.awaitStarted(h).Holder
	for fd := range 3 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); to != os.DevNull {
			t.Errorf("descriptor %d is %s (%v)", fd, to, err)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") || strings.HasPrefix(line, "Threads") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// Whatever a process is found by, its group, its cgroup or its end as an orphan, it has TERM once.
func TestEachIsAskedOnce(t *testing.T) {
	t.Parallel()
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		member := `trap "had=x; echo x >>asked" TERM; echo x >>up; until [ -n "$had" ]; do sleep 0.01; done; sleep 0.3; exit 0`
		s := r.settings(`for i in 1 2 3 4 5 6 7 8; do (` + member + `) & done; (setsid sh -c '` + member + `' &); ` + member)
		s.Cgroup, s.Grace = cgroup, patience
		h := r.start(s.config())
		r.Until("all are up", func() bool { return strings.Count(r.Text("up"), "x") == 10 })
		h.Stop("asked", 0)
		if report := r.wait(h); report.Err != "" || report.Signal != 0 {
			t.Errorf("report %+v", report)
		}
		if n := strings.Count(r.Text("asked"), "x"); n != 10 {
			t.Errorf("ten processes were asked %d times", n)
		}
	})
}

// An orphan that takes its time has TERM once: some take a second one for "at once".
func TestAnOrphanIsAskedOnce(t *testing.T) {
	r := newRig(t)
	s := r.settings(`setsid sh -c 'trap "echo x >>asked" TERM; echo x >up; until [ -s asked ]; do sleep 0.01; done
		n=0; while [ $n -lt 30 ]; do sleep 0.02; n=$((n+1)); done' & until [ -s up ]; do sleep 0.01; done; exit 5`)
	s.Cgroup, s.Grace = noCgroup, patience
	if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" {
		t.Errorf("report %+v", report)
	}
	if n := strings.Count(r.Text("asked"), "x"); n != 1 {
		t.Errorf("it was asked %d times, want once", n)
	}
}
