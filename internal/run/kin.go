package run

import "golang.org/x/sys/unix"

// Who belongs to a command: its first process, the group of that, and with Command.Adopts
// what is in its cgroup and every orphan that has come to this process.
//
// The first process is reaped last: the group's number is ours until then, and must not be
// signalled after.

// isGone reports whether the first process has ended and nothing else is left.
func (p *Process) isGone() bool {
	if !p.ended {
		p.ended = HasEnded(p.Group)
	}
	switch {
	case !p.ended:
		return false
	case !p.adopts:
		return len(Living(p.Group)) == 0
	}
	return p.ReapOrphans() == 0 && !p.Cgroup.IsPopulated()
}

// ReapOrphans takes those that have ended, and counts the others.
func (p *Process) ReapOrphans() (left int) {
	for _, pid := range p.orphans() {
		if got, _ := unix.Wait4(pid, nil, unix.WNOHANG, nil); got != pid {
			left++
			continue
		}
		delete(p.asked, pid) // the number may be another's from now on
	}
	return left
}

// orphans lists those that were adopted: all children of this process but one.
func (p *Process) orphans() []int {
	if !p.adopts {
		return nil
	}
	pids, _ := Children()
	for i, pid := range pids {
		if pid == p.Group && !p.reaped {
			return append(pids[:i:i], pids[i+1:]...)
		}
	}
	return pids
}

// grouped lists the group, while its number is ours.
func (p *Process) grouped() []int {
	if p.reaped {
		return nil
	}
	return Living(p.Group)
}

// Members lists what can be found of the command.
func (p *Process) Members() []int {
	return append(append(p.orphans(), p.Cgroup.Members()...), p.grouped()...)
}

// ask sends TERM to all that can be found, to each once: some take a second one for "at
// once". Who is forked into the group meanwhile may have two, and nobody has none.
func (p *Process) ask() {
	for _, pid := range p.grouped() {
		p.asked[pid] = true
	}
	p.Signal(unix.SIGTERM)
	p.Signal(unix.SIGCONT) // a stopped process does not see TERM
	p.askEach(p.Cgroup.Members(), func(pid int) { p.Cgroup.signal(pid, unix.SIGTERM) })
	p.askOrphans()
}

// askOrphans sends TERM to the orphans that have come since. They are our children and not
// reaped, so their numbers are theirs.
func (p *Process) askOrphans() {
	p.askEach(p.orphans(), func(pid int) { _ = unix.Kill(pid, unix.SIGTERM) })
}

// askEach sends TERM to those of them that have not had it.
func (p *Process) askEach(pids []int, send func(pid int)) {
	for _, pid := range pids {
		if !p.asked[pid] {
			p.asked[pid] = true
			send(pid)
		}
	}
}

// kill sends KILL to all that can be found. Without a cgroup, the descendants of those that it
// kills become our children, and are found by the next one.
func (p *Process) kill() {
	p.Cgroup.Kill()
	p.Signal(unix.SIGKILL)
	for _, pid := range p.orphans() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Signal sends to the process group while its number is ours.
func (p *Process) Signal(sig unix.Signal) {
	if !p.reaped {
		_ = Signal(p.Group, sig)
	}
}

// bury sweeps the group once more, for a member that was forked while isGone looked elsewhere,
// reaps the first process, and reports whether no child is left: that is exact, where the list
// of children may have missed one.
func (p *Process) bury() (gone bool) {
	if !p.reaped {
		p.Signal(unix.SIGKILL)
		_ = again(func() error {
			_, err := unix.Wait4(p.Group, &p.status, 0, nil)
			return err
		})
		p.reaped = true
	}
	return !p.adopts || ReapAll(func(int, unix.WaitStatus) {})
}

// ReapAll takes all children of this process that have ended, and reports whether there are
// no others. It is for a process in which nobody waits for one child alone.
func ReapAll(took func(pid int, status unix.WaitStatus)) (none bool) {
	for {
		var status unix.WaitStatus
		pid := 0
		err := again(func() (err error) {
			pid, err = unix.Wait4(-1, &status, unix.WNOHANG, nil)
			return err
		})
		switch {
		case err != nil: // ECHILD
			return true
		case pid == 0:
			return false
		}
		took(pid, status)
	}
}

// Status is how the first process has ended: the code is -1 if a signal has ended it, or if
// it has not ended.
func (p *Process) Status() (exit int, by unix.Signal) {
	switch {
	case !p.reaped:
		return -1, 0
	case p.status.Signaled():
		return -1, p.status.Signal()
	}
	return p.status.ExitStatus(), 0
}
