package guard

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/run"
)

// child is the command: its first process, its group, and every descendant that
// this process has adopted. It is owned by the guard's one thread.
//
// The first process is reaped last: the group's number is ours until then, and
// must not be signalled after.
type child struct {
	group  int
	cgroup *cgroup // nil: none could be made

	ended  bool // the first process has; it may not be reaped yet
	reaped bool
	status syscall.WaitStatus // once reaped

	asked map[int]bool // adopted orphans that have had their TERM
}

// startChild runs argv in a process group of its own and, if cg is not nil, in that
// cgroup. The kernel kills it when the thread that forks it ends, so that must be one
// that lives as long as the guard (go.dev/issue/27505): the caller's, or realtime's.
func startChild(o *order, cg *cgroup) (*child, error) {
	argv := o.Argv.words()
	attr := &os.ProcAttr{Dir: string(o.Cwd), Env: o.Env.words(), Files: o.files(),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	if cg != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(cg.fd.Fd())
	}
	first, err := realtime.StartProcess(argv[0], argv, attr)
	if err != nil {
		path := argv[0]
		if !filepath.IsAbs(path) { // of the command's directory, which is not this process's
			path = filepath.Join(string(o.Cwd), path)
		}
		return nil, run.CannotStart(path, err)
	}
	c := &child{group: first.Pid, cgroup: cg, asked: make(map[int]bool)}
	return c, first.Release() // it is waited for by its number
}

// files are the command's descriptors by their numbers there.
func (o *order) files() []*os.File {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, fd := range o.Others {
		for len(files) <= fd {
			files = append(files, nil) // closed
		}
		files[fd] = o.others[i]
	}
	return files
}

// look notices who has ended, and reaps all but the first process. It reports
// whether nothing of the command is left but that.
func (c *child) look() (gone bool) {
	if !c.ended {
		c.ended = run.HasEnded(c.group)
	}
	others := c.others()
	left := 0
	for _, pid := range others {
		if got, _ := unix.Wait4(pid, nil, unix.WNOHANG, nil); got != pid {
			left++
			continue
		}
		delete(c.asked, pid) // the number may be another's from now on
	}
	return c.ended && left == 0 && !(c.cgroup != nil && populated(c.cgroup.dir))
}

// others lists the adopted children.
func (c *child) others() []int {
	pids, _ := run.Children()
	for i, pid := range pids {
		if pid == c.group && !c.reaped {
			return append(pids[:i:i], pids[i+1:]...)
		}
	}
	return pids
}

// members lists what can be found of the command, zombies too.
func (c *child) members() []int {
	pids := c.others()
	if c.cgroup != nil {
		pids = append(pids, c.cgroup.members()...)
	}
	for _, pid := range run.Processes() {
		if group, err := unix.Getpgid(pid); err == nil && group == c.group && !c.reaped {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ask sends TERM to all that can be found.
func (c *child) ask() {
	c.signal(unix.SIGTERM)
	c.signal(unix.SIGCONT) // a stopped process does not see TERM
	if c.cgroup != nil {
		c.cgroup.signal(unix.SIGTERM)
	}
	c.askAdopted()
}

// askAdopted sends TERM to the orphans that have come since. They are our
// children and not reaped, so their numbers are theirs.
func (c *child) askAdopted() {
	for _, pid := range c.others() {
		if !c.asked[pid] {
			c.asked[pid] = true
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
}

// kill sends KILL to all that can be found. Without a cgroup, the descendants of
// those that it kills become our children, and are found by the next kill.
func (c *child) kill() {
	if c.cgroup != nil {
		_ = killCgroup(c.cgroup.dir)
	}
	c.signal(unix.SIGKILL)
	for _, pid := range c.others() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// signal sends to the process group while its number is ours.
func (c *child) signal(sig unix.Signal) {
	if !c.reaped {
		_ = unix.Kill(-c.group, sig)
	}
}

// bury sweeps the group once more, for who was forked while look looked
// elsewhere, reaps the first process, and reports whether we have no child left:
// that is exact, where the list of children may have missed one.
func (c *child) bury() (gone bool) {
	if !c.reaped {
		c.signal(unix.SIGKILL)
		_, err := syscall.Wait4(c.group, &c.status, 0, nil)
		for errors.Is(err, syscall.EINTR) {
			_, err = syscall.Wait4(c.group, &c.status, 0, nil)
		}
		c.reaped = true
	}
	for {
		switch pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD
			return true
		case pid == 0:
			return false
		}
	}
}

// tell adds what is known of the end to a report.
func (c *child) tell(r *Report) {
	if !c.reaped {
		return
	}
	r.Exit = c.status.ExitStatus()
	if c.status.Signaled() {
		r.Signal = int(c.status.Signal())
	}
}
