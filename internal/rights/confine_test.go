package rights

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// confine does so, prints what is left to it, and stays until its input ends.
func confine() {
	open, err := os.Create(os.Getenv("RIGHTS_CONFINE"))
	if err == nil {
		_, err = open.WriteString("kept")
	}
	lacks, confined := Confine()
	fmt.Println("lacks", lacks)
	fmt.Println("error", err, confined)
	_, err = os.Open("/proc/self/status")
	fmt.Println("open", unwrapped(err))
	_, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", open.Fd()), os.O_RDWR, 0)
	fmt.Println("again", unwrapped(err))
	fmt.Println("chmod", unwrapped(open.Chmod(0o777)))
	fmt.Println("exec", unwrapped(exec.Command("/bin/true").Run()))
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	fmt.Println("socket", err)
	_, err = net.Listen("tcp", "127.0.0.1:0")
	fmt.Println("listen", err != nil)
	fmt.Println("kill", unix.Kill(os.Getpid(), 0))
	fmt.Println("parent", unix.Tgkill(os.Getppid(), os.Getppid(), 0))
	fmt.Println("nice", unix.Setpriority(unix.PRIO_PROCESS, 0, 0))
	fmt.Println("root", unix.Setuid(0))
	started := make(chan struct{}) // a thread can still be made, and signalled by the runtime
	go func() { runtime.LockOSThread(); runtime.GC(); close(started) }()
	<-started
	text := make([]byte, 4)
	_, err = open.ReadAt(text, 0)
	fmt.Println("has", string(text), err)
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func unwrapped(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = inner.Unwrap()
	}
}

// Root in a container without a capability stays root, and has no more than that.
func TestConfineWithoutCapabilities(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("skipped: it takes root, and setpriv (package util-linux)")
	}
	if _, ok := machines[runtime.GOARCH]; !ok {
		t.Skip("skipped: there is no filter for " + runtime.GOARCH)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(setpriv, "--bounding-set", "-all", "--inh-caps", "-all", self)
	cmd.Env = append(os.Environ(), "RIGHTS_CONFINE="+filepath.Join(t.TempDir(), "file"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"it stays root without rights: operation not permitted", "\nerror <nil> <nil>\n", "\nopen operation not permitted\n", "\nkill operation not permitted\n", "\ndone\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("not %q:\n%s", want, out)
		}
	}
}

// A process that only serves keeps what it has open, and can open, make, signal and become nothing.
func TestConfine(t *testing.T) {
	if _, ok := machines[runtime.GOARCH]; !ok {
		t.Skip("skipped: there is no filter for " + runtime.GOARCH)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RIGHTS_CONFINE="+filepath.Join(t.TempDir(), "file"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	said := map[string]string{}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "done" {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		said[word] = rest
	}
	const no = "operation not permitted"
	for word, want := range map[string]string{"error": "<nil> <nil>", "open": no, "again": no, "chmod": no, "exec": no, "socket": no, "listen": "true", "kill": no,
		"parent": no, "nice": no, "root": no, "has": "kept <nil>"} {
		if said[word] != want {
			t.Errorf("%s: %s, want %s", word, said[word], want)
		}
	}
	t.Log("lacks", said["lacks"])
	if strings.Contains(said["lacks"], "cgo") {
		return
	}
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "task", "*", "status"))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: not %q", thread, want)
			}
		}
		if os.Geteuid() == 0 && !strings.Contains(string(text), "Uid:\t65534\t65534\t65534\t65534\n") {
			t.Errorf("%s: it is another than nobody", thread)
		}
	}
	if len(threads) < 2 {
		t.Errorf("%d threads were looked at", len(threads))
	}
}
