package rights

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// This program is also the process that gives up.
func TestMain(m *testing.M) {
	if name := os.Getenv("RIGHTS_GIVE_UP"); name != "" {
		giveUp(name)
		return
	}
	if os.Getenv("RIGHTS_CONFINE") != "" {
		confine()
		return
	}
	os.Exit(m.Run())
}

// giveUp does so, with threads beside, and prints what they have left.
func giveUp(name string) {
	var threads sync.WaitGroup
	done := make(chan struct{})
	for range 5 {
		threads.Add(1)
		go func() {
			runtime.LockOSThread()
			threads.Done()
			<-done
		}()
	}
	threads.Wait()
	u, err := Lookup(name)
	if err == nil {
		err = GiveUp(u)
	}
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	statuses, _ := filepath.Glob("/proc/self/task/*/status")
	for _, file := range statuses {
		text, _ := os.ReadFile(file)
		for _, line := range strings.Split(string(text), "\n") {
			switch name, _, _ := strings.Cut(line, ":"); name {
			case "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp":
				fmt.Println(strings.Join(strings.Fields(line), " "))
			}
		}
	}
	fmt.Println("exec", exec.Command("/bin/true").Run())
	fmt.Println("root", unix.Setuid(0))
	fmt.Println("trace", unix.PtraceAttach(os.Getppid()))
	own, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Println("dumpable", own)
	started := make(chan struct{}) // a thread can still be made
	go func() { runtime.LockOSThread(); close(started) }()
	<-started
	fmt.Println("threads", len(statuses) > 5)
}

func gaveUp(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RIGHTS_GIVE_UP="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(string(out), errCgo.Error()) {
		t.Skip("skipped: built with cgo; CGO_ENABLED=0 go test runs it")
	}
	return string(out)
}

// Every thread is another user's, has no capability, can get none, and starts nothing.
func TestGiveUp(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root has something to give up")
	}
	u, err := Lookup("nobody")
	if err != nil {
		t.Skip("skipped: " + err.Error())
	}
	out := gaveUp(t, "nobody")
	want := map[string]string{"Uid:": fmt.Sprint(u.UID), "Gid:": fmt.Sprint(u.GID), "Groups:": "", "CapInh:": "0000000000000000", "CapPrm:": "0000000000000000",
		"CapEff:": "0000000000000000", "CapBnd:": "0000000000000000", "CapAmb:": "0000000000000000", "NoNewPrivs:": "1",
		"exec": "operation not permitted", "root": "operation not permitted", "trace": "operation not permitted", "dumpable": "0", "threads": "true"}
	if _, ok := machines[runtime.GOARCH]; ok {
		want["Seccomp:"] = "2"
	}
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[name]++
		for _, part := range strings.Split(value, " ") {
			if name == "Uid:" || name == "Gid:" {
				value = part
			}
		}
		if !strings.HasSuffix(value, want[name]) || want[name] == "" && value != "" {
			t.Errorf("%s %s, want %q", name, value, want[name])
		}
	}
	for name := range want {
		if seen[name] == 0 || strings.HasSuffix(name, ":") && seen[name] < 6 {
			t.Errorf("%s was said %d times:\n%s", name, seen[name], out)
		}
	}
}

func TestWhoCannotBeGivenUpTo(t *testing.T) {
	for _, name := range []string{"root", "0", "no-such-user-here"} {
		if u, err := Lookup(name); err == nil {
			t.Errorf("%s: %+v", name, u)
		}
	}
	if os.Geteuid() != 0 {
		if err := GiveUp(User{Name: "other", UID: os.Geteuid() + 1, GID: 1}); err == nil || errors.Is(err, errCgo) {
			t.Errorf("became another: %v", err)
		}
	}
}

// The program of each machine ends, and its jumps stay inside.
func TestFilterIsWellFormed(t *testing.T) {
	for name, m := range machines {
		for _, p := range [][]unix.SockFilter{m.program(), m.confinement(4711)} {
			for i, in := range p {
				if in.Code&7 == unix.BPF_JMP && i+1+int(max(in.Jt, in.Jf)) >= len(p) {
					t.Errorf("%s: instruction %d jumps out", name, i)
				}
			}
			if last := p[len(p)-1]; last != answer(allow) {
				t.Errorf("%s: it ends with %+v", name, last)
			}
		}
	}
}
