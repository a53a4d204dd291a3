package realtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a process is under holds for all of it, so each test has processes of its own:
// this program, with the name of one of these as its first argument.
var parts = map[string]func(){
	"enter":     enter,
	"as-nobody": asNobody,
	"family":    family,
	"heir":      heir,
	"spin":      spin,
	"show":      func() { show("child") },
	"child":     child,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		parts[os.Args[1]]()
		return
	}
	os.Exit(m.Run())
}

// play has a part played and returns what was shown, a line for each show.
func play(t *testing.T, part string, args ...string) []sight {
	t.Helper()
	return playAs(t, nil, part, args...)
}

func playAs(t *testing.T, as *syscall.SysProcAttr, part string, args ...string) []sight {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{part}, args...)...)
	cmd.SysProcAttr = as
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", part, err, failed.String())
	}
	var all []sight
	for d := json.NewDecoder(&out); d.More(); {
		var s sight
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		all = append(all, s)
	}
	return all
}

// sight is what a process sees of itself.
type sight struct {
	Who       string
	Realtime  int // threads under SCHED_RR, priority 1
	Ordinary  int // threads under SCHED_OTHER, nice 0
	Shedding  int // threads, of either kind, with the flag
	Others    int // threads
	LockedKiB int
	State     State
}

func show(who string) {
	s := sight{Who: who, State: Current()}
	threads, err := os.ReadDir("/proc/self/task")
	check(err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		check(err)
		attr, err := unix.SchedGetAttr(id, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		check(err)
		switch {
		case attr.Policy == unix.SCHED_RR && attr.Priority == Priority:
			s.Realtime++
		case attr.Policy == unix.SCHED_NORMAL && attr.Nice == 0:
			s.Ordinary++
		default:
			s.Others++
		}
		if attr.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0 {
			s.Shedding++
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmLck:"); ok {
			s.LockedKiB, err = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			check(err)
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(s))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func enter() {
	_ = Enter() // it is in the state
	show("self")
}

// needRight skips where real time is not to be had, which needs no root.
func needRight(t *testing.T) {
	t.Helper()
	if s := play(t, "enter")[0]; !s.State.Realtime {
		t.Skipf("no real time here: %s", s.State.Why)
	}
}

func TestAllThreadsOfTheProcessAreRealtime(t *testing.T) {
	needRight(t)
	s := play(t, "enter")[0]
	if s.Realtime == 0 || s.Ordinary+s.Others+s.Shedding != 0 {
		t.Errorf("%+v", s)
	}
	if strings.HasPrefix(s.State.Memory, "locked") != (s.LockedKiB > 0) {
		t.Errorf("%d KiB are locked, and it says %q", s.LockedKiB, s.State.Memory)
	}
}

// family starts children in each way, while threads come and go.
func family() {
	check(Enter())
	for range 4 {
		go func() { runtime.LockOSThread(); select {} }()
	}
	files := []*os.File{nil, os.Stdout, os.Stderr}
	for range 3 {
		p, err := StartProcess("/proc/self/exe", []string{"x", "child"}, &os.ProcAttr{Files: files, Env: os.Environ(),
			Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
		check(err)
		_, err = p.Wait()
		check(err)
	}
	_, err := StartProcess("/nowhere", []string{"x"}, &os.ProcAttr{})
	if !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	shedding := make(chan error)
	go func() {
		runtime.LockOSThread()
		check(Shed())
		cmd := exec.Command("/proc/self/exe", "child")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		shedding <- cmd.Run()
		select {}
	}()
	check(<-shedding)
	cmd := exec.Command("/proc/self/exe", "heir")
	cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, append(os.Environ(), Environ()...)
	check(cmd.Run())
	show("parent")
}

// child starts one of its own in the background, as a hook may.
func child() {
	show("child")
	cmd := exec.Command("/proc/self/exe", "show")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}

// heir is part of the parent, and what it starts is not.
func heir() {
	Inherit()
	p, err := StartProcess("/proc/self/exe", []string{"x", "child"}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: os.Environ()})
	check(err)
	_, err = p.Wait()
	check(err)
	show("heir")
}

// Whatever the process starts is ordinary, its own children too; its threads stay what
// they are; and what belongs to it is as it is.
func TestChildrenAreOrdinary(t *testing.T) {
	needRight(t)
	count := map[string]int{}
	for _, s := range play(t, "family") {
		count[s.Who]++
		if s.Who == "child" {
			if s.Realtime+s.Others+s.Shedding+s.LockedKiB != 0 || s.Ordinary == 0 {
				t.Errorf("%+v", s)
			}
			continue
		}
		if !s.State.Realtime || s.Ordinary+s.Others != 0 {
			t.Errorf("%+v", s)
		}
		if want := map[string]int{"parent": 2, "heir": 1}[s.Who]; s.Shedding != want { // one for StartProcess, one that called Shed
			t.Errorf("%s has %d threads that fork", s.Who, s.Shedding)
		}
	}
	if count["child"] != 10 || count["heir"] != 1 || count["parent"] != 1 {
		t.Errorf("seen: %v", count)
	}
}

// Where nobody has entered nothing changes: exec's command keeps what its caller gave it.
func TestWithoutRealtimeNothingIsShed(t *testing.T) {
	if Environ() != nil {
		t.Error("this process has entered")
	}
	needRight(t)
	chrt, err := exec.LookPath("chrt")
	if err != nil {
		t.Skip("chrt is not installed")
	}
	p, err := StartProcess(chrt, []string{"chrt", "-r", "2", "/bin/sh", "-c", "exit $(cut -d ' ' -f 41 /proc/self/stat)"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil || state.ExitCode() != unix.SCHED_RR {
		t.Errorf("policy %v, %v", state, err)
	}
}

// asNobody has what right is left to it, and asks for real time, without and with again.
func asNobody() {
	const nobody = 65534
	check(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}))
	switch os.Args[2] {
	case "limit":
		if unix.Setrlimit(unix.RLIMIT_RTPRIO, &unix.Rlimit{Cur: Priority, Max: Priority}) != nil {
			return // not even root may
		}
	case "nothing":
		check(unix.Setrlimit(unix.RLIMIT_RTPRIO, &unix.Rlimit{}))
	}
	if os.Args[2] != "capability" { // with it, whoever starts us makes us nobody
		check(syscall.Setgid(nobody))
		check(syscall.Setuid(nobody))
	}
	_ = Enter() // it is in the state
	show("self")
	if Current().Realtime {
		check(lower(0))
		show("lowered")
		check(raise())
		show("raised")
	}
}

func TestOneOfTheRightsIsEnough(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: cannot become somebody else")
	}
	needRight(t)
	for _, right := range []string{"limit", "capability"} {
		t.Run(right, func(t *testing.T) {
			var as *syscall.SysProcAttr
			if right == "capability" {
				as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_SYS_NICE}}
			}
			shown := playAs(t, as, "as-nobody", right)
			if len(shown) == 0 {
				t.Skip("this root may not raise limits")
			}
			if len(shown) != 3 || !shown[0].State.Realtime || shown[0].Ordinary != 0 || shown[1].Realtime != 0 || shown[2].Ordinary != 0 {
				t.Fatalf("%+v", shown)
			}
			if want := "not locked: RLIMIT_MEMLOCK is 1024 KiB"; shown[0].State.Memory != want {
				t.Errorf("%q, want %q", shown[0].State.Memory, want)
			}
		})
	}
}

func TestWithoutTheRightItSaysSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: cannot become somebody else")
	}
	s := play(t, "as-nobody", "nothing")[0]
	if s.State.Realtime || s.Realtime != 0 || s.State.Why != "neither CAP_SYS_NICE nor RLIMIT_RTPRIO gives the right to it" {
		t.Errorf("%+v", s)
	}
}

// Root itself is refused in a control group without a share.
func TestAGroupWithoutAShareIsNamed(t *testing.T) {
	needRight(t)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, file := cpuGroup(string(own))
	if _, err := os.Stat(file); err != nil {
		t.Skip("no control groups with shares of real time here")
	}
	dir := filepath.Join(filepath.Dir(file), fmt.Sprintf("bully-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	defer os.Remove(dir)
	cmd := exec.Command("/bin/sh", "-c", "echo $$ > "+dir+"/cgroup.procs && exec "+exe(t)+" enter")
	out, err := cmd.CombinedOutput()
	if want := "has no share of real time"; err != nil || !strings.Contains(string(out), filepath.Base(dir)+" "+want) {
		t.Errorf("%v: %s", err, out)
	}
}

func exe(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// spin runs away for a while.
func spin() {
	runtime.GOMAXPROCS(1) // so that the watch is up against it
	check(Enter())
	ctx, stop := context.WithTimeout(context.Background(), 3*lookEvery)
	defer stop()
	go func() {
		for ctx.Err() == nil {
		}
	}()
	Watch(ctx, func(State) { show("told") })
}

// A loop that runs away loses real time, and nobody else does anything for that.
func TestARunawayLoopBecomesOrdinary(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it spins for some seconds")
	}
	needRight(t)
	shown := play(t, "spin")
	if len(shown) != 1 || shown[0].Realtime+shown[0].Others != 0 || shown[0].State.Realtime ||
		!strings.Contains(shown[0].State.Why, "% of a processor") {
		t.Errorf("%+v", shown)
	}
}

func TestExcessIsFollowedByAQuietMinute(t *testing.T) {
	now := time.Now()
	u := usage{at: now}
	var cpu time.Duration
	for i, step := range []struct {
		passed, used time.Duration
		want         bool
	}{
		{2 * time.Second, time.Second, true}, // half a processor
		{2 * time.Second, 1020 * time.Millisecond, false},
		{restFor - time.Second, 0, false},
		{time.Second / 2, 0, false},
		{time.Second / 2, 0, true},
		{2 * time.Second, 2 * time.Second, false},
		{restFor / 2, restFor / 2, false}, // again: the minute begins anew
		{restFor - time.Second, 0, false},
		{time.Second, 0, true},
		{time.Hour, time.Minute, true}, // a machine that slept
	} {
		now, cpu = now.Add(step.passed), cpu+step.used
		if got, percent := u.look(now, cpu); got != step.want {
			t.Errorf("step %d, %d %%: real time %t, want %t", i, percent, got, step.want)
		}
	}
}

func TestTheGroupOfTheProcessorIsFound(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                   {},
		"0::/user.slice\n":                   {},
		"3:cpuset:/a\n1:cpu:/b\n0::/\n":      {"/b", "/sys/fs/cgroup/cpu/b/cpu.rt_runtime_us"},
		"4:cpu,cpuacct:/system.slice/x\n":    {"/system.slice/x", "/sys/fs/cgroup/cpu,cpuacct/system.slice/x/cpu.rt_runtime_us"},
		"4:cpuacct,cpu:/with:colon\nrubbish": {"/with:colon", "/sys/fs/cgroup/cpuacct,cpu/with:colon/cpu.rt_runtime_us"},
	} {
		if group, file := cpuGroup(text); group != want[0] || file != want[1] {
			t.Errorf("%q: %q, %q", text, group, file)
		}
	}
}
