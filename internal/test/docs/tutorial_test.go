package docs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	tutorial = "docs/tutorial.md"
	// powered is the first process of the reader's: what the script makes there is in no other's sight, and ends with it.
	powered = "mount -t tmpfs none /run && mkdir /run/netns && (" + layered + ") && echo up && exec sleep infinity"
	// layered tries whether a host can have an /etc of its own.
	layered = "mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work && mount -t overlay -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work none /mnt"
)

var (
	// typed is a command of the tutorial: at the reader's machine ($), on a host, on the client, or on all hosts in turn.
	typed = regexp.MustCompile(`^(\$|(?:alpha|beta|gamma|client|all)#) (.*)$`)
	// asks are the commands that change nothing: they are repeated until they print what is shown.
	asks = regexp.MustCompile(`^(bully-agent (leader|status|history|explain|config check|jobs history)|hostname|ping)\b`)
)

// What the tutorial says works as it stands there, from the first command to the last: its commands in their order, on the hosts
// of its script, with its configuration.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	t.Parallel()
	p := newPupil(t)
	for _, b := range pageAt(t, tutorial).blocks() {
		switch b.language {
		case "console":
			for _, s := range steps(t, tutorial, b, typed) {
				p.types(s)
			}
		case "toml":
			p.writes(b.text)
		case "sh": // for machines of one's own
			if !strings.Contains(readme(t).text, b.text[strings.Index(b.text, "\n"):]) {
				t.Errorf("README.md installs otherwise than\n%s", b.text)
			}
		default:
			t.Errorf("a block of %q: the test knows of none", b.language)
		}
	}
	if p.done < 50 {
		t.Errorf("only %d commands were found", p.done)
	}
}

// A pupil does what the tutorial says.
type pupil struct {
	t    *testing.T
	on   int    // the process that is the reader's machine
	dir  string // with the script, as the page has it: ./hosts
	path string // PATH, with the program
	done int    // commands
}

// newPupil copies the script. It skips the test where the hosts cannot be.
func newPupil(t *testing.T) *pupil {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: hosts in namespaces need root")
	}
	for _, tool := range []string{"ip", "unshare", "nsenter", "setsid", "pkill", "ping", "hostname", "uname"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: " + err.Error())
		}
	}
	script, err := os.ReadFile(filepath.Join(root, "deploy", "tutorial", "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	binary := build(t)
	p := &pupil{t: t, dir: t.TempDir(), path: filepath.Dir(binary) + ":" + os.Getenv("PATH")}
	if err := os.WriteFile(filepath.Join(p.dir, "hosts"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	p.boot()
	return p
}

// boot starts the reader's machine: namespaces around those of the hosts. The kernel ends all that is in them with the test.
func (p *pupil) boot() {
	p.t.Helper()
	boot := exec.Command("unshare", "-m", "-n", "-p", "--mount-proc", "--kill-child", "-f", "sh", "-c", powered)
	boot.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // unshare holds TERM back
	out, err := boot.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	boot.Stderr = boot.Stdout
	started, over := make(chan error), make(chan struct{})
	go func() { // on a thread that lasts as long: the kernel ends boot with it, and those of TestShownOnLAN end
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- boot.Start()
		<-over
	}()
	if err := <-started; err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = boot.Process.Kill()
		_ = boot.Wait()
		close(over)
	})
	said, _ := bufio.NewReader(out).ReadString('\n')
	if said != "up\n" {
		p.t.Skipf("skipped: no namespaces can be made here: %s", said)
	}
	p.t.Cleanup(p.logs)
	child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", boot.Process.Pid, boot.Process.Pid))
	if err != nil {
		p.t.Skip("skipped: " + err.Error())
	}
	if _, err := fmt.Sscan(string(child), &p.on); err != nil {
		p.t.Fatal(err)
	}
}

// logs are what the agents have said, of a tutorial that went wrong.
func (p *pupil) logs() {
	if p.t.Failed() {
		out, _ := p.run("tail -n 100 /run/bully-hosts/*/console")
		p.t.Log(out)
	}
}

// types runs a command, and stops the tutorial where it does not do what is shown: all that follows would differ too.
func (p *pupil) types(s step) {
	p.t.Helper()
	on := []string{strings.TrimSuffix(s.host, "#")}
	if s.host == "all#" {
		on = names
	}
	for _, host := range on {
		p.done++
		var said string
		for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // until it prints that
			var err error
			said, err = p.at(host, s.line)
			if asShown(s.prints, strings.Split(strings.TrimSuffix(said, "\n"), "\n")) && (err == nil || len(s.prints) > 0) {
				break
			}
			if !asks.MatchString(s.line) || time.Now().After(end) {
				p.t.Fatalf("%s# %s\nprints (%v)\n%s\nand is shown to print\n%s", host, s.line, err, said, strings.Join(s.prints, "\n"))
			}
		}
	}
}

// writes adds lines to agent.toml on all hosts: the first that the page has are its beginning.
func (p *pupil) writes(text string) {
	p.t.Helper()
	for _, host := range names {
		if out, err := p.at(host, "cat >>/etc/bully-agent/agent.toml <<'EOF'\n"+text+"EOF"); err != nil {
			p.t.Fatalf("write agent.toml on %s: %v\n%s", host, err, out)
		}
	}
}

// at runs a line in a shell of a host, or with $ of the reader's machine.
func (p *pupil) at(host, line string) (said string, err error) {
	if host == "$" {
		return p.run(line)
	}
	return p.run("exec ./hosts run "+host+` sh -c "$LINE"`, "LINE="+line)
}

func (p *pupil) run(line string, env ...string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "nsenter", "-t", fmt.Sprint(p.on), "-m", "-n", "-p", "/bin/sh", "-c", "cd "+p.dir+" && "+line)
	shell.WaitDelay = time.Second // what hosts up has started goes on
	// The lease is more than twice the default: this machine does other things too.
	shell.Env = append([]string{"PATH=" + p.path, "HOME=/root", "LANG=C.UTF-8", "TZ=UTC", "BULLY_LEASE=1s"}, env...)
	out, err := shell.CombinedOutput()
	return string(out), err
}
