package guard

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

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

func TestACommandRunsAndItsExitCodeComesBack(t *testing.T) {
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("exit 42")
		s.Cgroup = cgroup
		report := r.wait(r.start(s.config()))
		if report.Stage != Ended || report.Exit != 42 || report.Cause != "" || report.Err != "" {
			t.Errorf("report %+v, want exit code 42", report)
		}
		if (cgroup == "") != strings.HasPrefix(report.Reach, "cgroup: ") {
			t.Errorf("reach %q", report.Reach)
		}
		if got := r.theRecord(); got.Report != report || got.Name != t.Name() || got.Epoch.Counter != 7 {
			t.Errorf("record %+v, want %+v", got, report)
		}
	})
}

// What the command finds, and that its streams end with it although the guard had
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
	cfg.Env, cfg.Stdin, cfg.Stdout = []string{"A=b\xff"}, in, out // a byte that is not UTF-8
	g := r.start(cfg)
	in.Close()
	out.Close()
	fmt.Fprint(hand, "input\n")
	hand.Close()
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	report := r.wait(g)
	words := strings.Fields(string(text))
	if len(words) < 7 || words[0] != "/" || words[1] != "input" || words[2] != "A=b\xff" || !strings.HasPrefix(words[3], "BULLY_GUARD=") {
		t.Fatalf("it found %q", words)
	}
	if own := fmt.Sprint(report.Group); words[len(words)-3] != own || words[len(words)-2] != own || words[len(words)-1] != fmt.Sprint(report.Guard) {
		t.Errorf("it is %q, want process and group %s in the guard's session %d", words[len(words)-3:], own, report.Guard)
	}
	plain := exec.Command("/bin/sh", "-c", "ls -1 /proc/self/fd | wc -l") // this process may have inherited some
	want, err := plain.Output()
	fds, _ := strconv.Atoi(words[len(words)-4])
	if most, atoi := strconv.Atoi(strings.TrimSpace(string(want))); errors.Join(err, atoi) != nil || fds > most {
		t.Errorf("it has %d descriptors, want at most %s (%v)", fds, want, err)
	}
}

// A command is not started when its time has ended: its agent or the guard was
// stopped on the way.
func TestTooLateToStart(t *testing.T) {
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
// a guard that took its time to start looks at what came meanwhile.
func TestTimeToStartIn(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("echo x >started; exec sleep 1000").config()
	cfg.StartBy = clock().Add(patience)
	g := r.start(cfg)
	r.UntilFile("started")
	g.RenewStart(clock().Add(-time.Second))
	g.Stop("enough", 0)
	if report := r.wait(g); report.Cause != "enough" {
		t.Errorf("report %+v", report)
	}
	late := guardian{order: &order{}, startBy: 1}
	if !late.isOver() || late.report.Cause != AgentDied {
		t.Errorf("started after its time, report %+v", late.report)
	}
	late = guardian{order: &order{}, startBy: now().Add(patience)}
	if late.isOver() {
		t.Error("not started before its time has ended")
	}
	late.obey(message{kind: kindStart, number: 1})
	if !late.isOver() {
		t.Error("what the agent said of the time to start in was not taken")
	}
	late.obey(message{kind: kindStart})
	if late.isOver() {
		t.Error("not started though there is no bound any more")
	}
}

// What has come while a guard was stopped counts when it comes to start its command: the
// lease may have been renewed.
func TestALateGuardReadsWhatHasCome(t *testing.T) {
	for name, tt := range map[string]struct {
		said   message
		isOver bool
	}{
		"nothing of the lease": {message{kind: kindSignal, number: int64(unix.SIGHUP)}, true},
		"more time":            {message{kind: kindStart, number: int64(now().Add(patience))}, false},
		"no bound any more":    {message{kind: kindStart}, false},
	} {
		t.Run(name, func(t *testing.T) {
			agent, theirs, err := sidecar.SocketPair("guard")
			if err != nil {
				t.Fatal(err)
			}
			defer agent.Close()
			defer theirs.Close()
			if _, err := agent.Write(tt.said.encode()); err != nil {
				t.Fatal(err)
			}
			late := guardian{order: &order{}, startBy: 1, alive: true, socket: int(theirs.Fd())}
			if isOver := late.isOver(); isOver != tt.isOver {
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
	g := r.start(cfg)
	if report := r.wait(g); report.Exit != 3 || report.Err != "" {
		t.Errorf("report %+v", report)
	}
	if err := g.Forget(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(r.Path("records")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCommandsThatCannotBeStarted(t *testing.T) {
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
		"no directory for its record": {Clock: clock},
		"no clock":                    {Records: dir},
		"must not be negative":        {Records: dir, Clock: clock, Grace: -1},
		"command []: expected":        {Records: dir, Clock: clock},
		"expected its path":           {Records: dir, Clock: clock, Argv: []string{"sleep"}},
		"no such file":                {Records: filepath.Join(dir, "missing"), Clock: clock, Argv: argv},
		"start guard: fork/exec":      {Records: dir, Clock: clock, Argv: argv, Program: []string{"/nonexistent"}},
		"pass on descriptors":         {Records: dir, Clock: clock, Argv: argv, Others: []int{1 << 30}},
	} {
		if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), name) {
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
		if _, err := Start(Config{Records: NoRecords, Clock: clock, Others: []int{1 << 30}}); err == nil {
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
			g := r.start(s.config())
			r.UntilFile("up")
			g.Stop("lease-expired", tt.within)
			report := r.wait(g)
			if tt.within > 0 && strings.Contains(report.Err, "the guard died") {
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
	g := r.start(r.settings("trap 'echo x >got; exit 0' HUP; echo x >up; while :; do sleep 0.01; done").config())
	r.UntilFile("up")
	g.Signal(unix.SIGHUP)
	if report := r.wait(g); r.Text("got") == "" || report.Exit != 0 || report.Cause != "" {
		t.Errorf("report %+v", report)
	}
}

// What the first process leaves behind ends with it, wherever it hides.
func TestStragglersAreSwept(t *testing.T) {
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

// What would end or stop another process does nothing to a guard.
func TestAGuardDropsSignals(t *testing.T) {
	r := newRig(t)
	g := r.start(r.settings("echo x >up; exec sleep 1000").config())
	r.UntilFile("up")
	pid := r.awaitStarted(g).Guard
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
		unix.SIGALRM, unix.SIGTSTP, unix.SIGCHLD} {
		if err := unix.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	g.Stop("asked", 0)
	if report := r.wait(g); report.Cause != "asked" || report.Signal != int(unix.SIGTERM) || report.Err != "" {
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
	g := r.start(cfg)
	r.UntilFile("up")
	g.Renew(clock().Add(150 * time.Millisecond))
	g.Renew(time.Time{})
	g.Renew(clock().Add(400 * time.Millisecond))
	from := now()
	report := r.wait(g)
	if report.Cause != AgentDied || !report.Silent {
		t.Errorf("report %+v, want that the agent is silent", report)
	}
	if took := now().Sub(from); took < 250*time.Millisecond {
		t.Errorf("ended after %v, want a budget of 100 ms before 400 ms", took)
	}
}

// A guard that was killed takes its command with it, and what that started.
func TestAGuardIsKilled(t *testing.T) {
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("setsid sleep 1000 & sleep 1000 & echo x >up; wait")
		s.Cgroup = cgroup
		g := r.start(s.config())
		r.UntilFile("up")
		if err := unix.Kill(r.awaitStarted(g).Guard, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		report := r.wait(g)
		if report.Stage != Ended || !strings.Contains(report.Err, "the guard died: signal: killed") {
			t.Errorf("report %+v", report)
		}
		if left := r.Living(); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
		if report.Cgroup != "" && populated(report.Cgroup) {
			t.Error("the cgroup is not empty")
		}
	})
}

// A guard that is stopped and told to stop is killed in time, also if it is told so twice.
func TestAStoppedGuardIsOverruled(t *testing.T) {
	for name, isAsked := range map[string]bool{"at once": false, "in a hurry": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			g := r.start(r.settings("trap '' TERM; echo x >up; while :; do sleep 0.01; done").config())
			r.UntilFile("up")
			if err := unix.Kill(r.awaitStarted(g).Guard, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if isAsked {
				g.Stop("stepped-down", time.Hour)
			}
			g.Stop("lease-expired", 50*time.Millisecond)
			if report := r.wait(g); !strings.Contains(report.Err, "the guard died") || len(r.Living()) > 0 {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// A guard that ends its command without being told, and is stopped in the midst of that, is
// killed when it has worked for as long as it may.
func TestAGuardThatIsStoppedInAnEndingIsOverruled(t *testing.T) {
	for _, cause := range []string{AgentDied, LeaseLost} {
		t.Run(cause, func(t *testing.T) {
			r := newRig(t)
			g := r.start(r.settings("echo x >up; exec sleep 1000").config())
			r.UntilFile("up")
			report := r.awaitStarted(g)
			if err := unix.Kill(report.Guard, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			g.mu.Lock()
			g.working = 50 * time.Millisecond
			g.mu.Unlock()
			report.Stage, report.Cause = Ending, cause
			g.hear(encodeReport(report))
			if report := r.wait(g); !strings.Contains(report.Err, "the guard died") || report.Cause != cause || len(r.Living()) > 0 {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// What the first process leaves behind has TERM and a grace, as the command has.
func TestStragglersAreAskedFirst(t *testing.T) {
	reaches(t, func(t *testing.T, cgroup string) {
		r := newRig(t)
		s := r.settings("(trap 'echo x >asked; exit 0' TERM; echo x >up; while :; do sleep 0.01; done) & until [ -s up ]; do sleep 0.01; done; exit 5")
		s.Cgroup, s.Grace = cgroup, patience
		if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" || r.Text("asked") == "" {
			t.Errorf("report %+v; the straggler was asked: %q", report, r.Text("asked"))
		}
	})
}

// Where no cgroup can be made a command runs without one, and people are told.
func TestWithoutACgroup(t *testing.T) {
	r := newRig(t)
	s := r.settings("exit 5")
	s.Cgroup = r.Path("nowhere")
	if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" || !strings.Contains(report.Reach, "no cgroup") {
		t.Errorf("report %+v", report)
	}
}

func TestForget(t *testing.T) {
	r := newRig(t)
	g := r.start(r.settings("exit 0").config())
	r.wait(g)
	if err := g.Forget(); err != nil {
		t.Fatal(err)
	}
	if records := r.recovered(); len(records) != 0 {
		t.Errorf("records %+v", records)
	}
}

// Kill leaves a command that takes no notice of TERM no grace, also one that it has had.
func TestKill(t *testing.T) {
	for _, isAsked := range []bool{false, true} {
		t.Run(fmt.Sprintf("asked before: %v", isAsked), func(t *testing.T) {
			r := newRig(t)
			s := r.settings("trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done")
			s.Grace = time.Hour
			g := r.start(s.config())
			r.PID("pid")
			if isAsked {
				g.Stop("asked", 0)
			}
			g.Kill("killed")
			if report := r.wait(g); report.Signal != int(unix.SIGKILL) || report.Err != "" {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A guard is small, since it lives beside each long job, and keeps nothing of the
// command's: who reads its output sees the end when the command has ended.
func TestAGuardHoldsLittle(t *testing.T) {
	r := newRig(t)
	cfg := r.settings("exec sleep 1000").config()
	cfg.Stdout, cfg.Stderr = os.Stdout, os.Stdout
	g := r.start(cfg)
	pid := r.awaitStarted(g).Guard
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

// An orphan that takes its time has TERM once: some take a second one for "at once".
func TestAnOrphanIsAskedOnce(t *testing.T) {
	r := newRig(t)
	s := r.settings(`setsid sh -c 'trap "echo x >>asked" TERM; echo x >up; until [ -s asked ]; do sleep 0.01; done
		n=0; while [ $n -lt 30 ]; do sleep 0.02; n=$((n+1)); done' & until [ -s up ]; do sleep 0.01; done; exit 5`)
	s.Cgroup, s.Grace = NoCgroup, patience
	if report := r.wait(r.start(s.config())); report.Exit != 5 || report.Err != "" {
		t.Errorf("report %+v", report)
	}
	if n := strings.Count(r.Text("asked"), "x"); n != 1 {
		t.Errorf("it was asked %d times, want once", n)
	}
}
