package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
)

// Command is what is to be started.
type Command struct {
	Argv, Env []string
	Dir       string     // where it starts; empty: in "/"
	Files     []*os.File // its descriptors, by their numbers there; nil: closed

	// Cgroup is where it is born, if that goes: not every kernel and sandbox takes clone3.
	Cgroup Cgroup
	// Adopts is for a process that starts nothing else: all its other children are orphans of
	// the command, and it takes in each whose parent ends.
	Adopts bool
}

// Process is one started command, and what belongs to it (kin.go). One goroutine owns it.
//
// Nothing else in this process may wait for children it did not start (wait4 with
// -1): the group's id is ours only while its first process is not reaped.
type Process struct {
	Group  int       // process group, the first process's id
	Begun  time.Time // when it was started
	Ended  []string  // the stragglers that were ended with it, by number and name
	Cgroup Cgroup    // of its own, if it has one

	adopts bool
	ended  bool // the first process has; it may not be reaped yet
	reaped bool
	status unix.WaitStatus // once reaped
	asked  map[int]bool    // who has had their TERM

	*Streams
	exited chan struct{} // closed when the first process ended; it is not reaped then

	parting time.Duration // how long a straggler may take to leave the group
}

// parting is what a daemon has between its fork, at which the first process often
// ends, and setsid. Arbitrary: it takes microseconds where a processor is free.
const parting = 50 * time.Millisecond

// Begin starts a command in a process group of its own. Its owner steps its Watch.
//
// If this process is killed, so is the command's first one. The kernel does that when
// the calling thread ends, so that this must be locked to it for as long as the command
// runs (go.dev/issue/27505).
func Begin(c Command) (*Process, error) {
	p := &Process{Begun: time.Now(), Cgroup: c.Cgroup, asked: map[int]bool{}, parting: parting}
	if c.Adopts { // nothing leaves it by leaving its group
		p.adopts, p.parting = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil, 0
	}
	attr := &os.ProcAttr{Dir: cmp.Or(c.Dir, "/"), Env: c.Env, Files: c.Files, Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	if c.Cgroup.Dir != "" {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(c.Cgroup.fd.Fd())
	}
	first, err := realtime.StartProcess(c.Argv[0], c.Argv, attr)
	switch {
	case err != nil && c.Cgroup.Dir != "":
		_ = c.Cgroup.Remove()
		c.Cgroup = Cgroup{}
		return Begin(c)
	case err != nil:
		path := c.Argv[0]
		if !filepath.IsAbs(path) { // of the command's directory, which is not this process's
			path = filepath.Join(attr.Dir, path)
		}
		return nil, CannotStart(path, err)
	}
	p.Group, p.Begun = first.Pid, time.Now()
	return p, first.Release() // it is waited for by its number
}

// Start is Begin for a command in "/" whose standard streams are fed and read. Conclude and
// Drain follow, in this order and each once.
func Start(argv, env []string, input []byte, out *Output) (*Process, error) {
	streams, err := OpenStreams()
	if err != nil {
		return nil, err
	}
	p, err := Begin(Command{Argv: argv, Env: env, Files: streams.Theirs})
	if err != nil {
		streams.Close()
		return nil, err
	}
	p.Streams, p.exited = streams, make(chan struct{})
	go p.await()
	streams.Serve(input, out)
	return p, nil
}

// CannotStart says why the kernel does not start a program: a hook's, a job's, a check's, one that names hosts, or one that
// runs on the lease. So it names none of them.
func CannotStart(path string, err error) error {
	why := err
	if bare := (*os.PathError)(nil); errors.As(err, &bare) { // "fork/exec" tells nobody anything
		why = bare.Err
	}
	_, missing := os.Stat(path)
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s cannot be started: %w: no #! line, or built for another processor", path, why)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be started: %w: its mode, a file system that is mounted noexec, SELinux or AppArmor", path, why)
	case errors.Is(err, unix.ENOENT) && missing == nil: // so it is not what the kernel has not found
		return fmt.Errorf("%s cannot be started: the program that its first line names, or its loader, was not found: %w", path, why)
	}
	return fmt.Errorf("%s cannot be started: %w", path, why)
}

// await closes exited when the first process ends, and leaves it unreaped.
func (p *Process) await() {
	defer close(p.exited)
	_ = again(func() error { return unix.Waitid(unix.P_PID, p.Group, nil, unix.WEXITED|unix.WNOWAIT, nil) })
}
