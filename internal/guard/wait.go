package guard

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
)

// What wakes a guard: the agent's messages and its death, the lease's line, the death of
// a child, and the timer.

// pollStuck is between two looks at a command that is said to be stuck. Most of what happens in
// an ending wakes us; that a process of the cgroup which is nobody's child of ours has gone
// does not.
const pollStuck = time.Second

// wait sleeps until something happens or is due.
func (g *guardian) wait() {
	g.arm()
	fds := []unix.PollFd{{Fd: int32(g.timer), Events: unix.POLLIN}, {Fd: int32(g.deaths), Events: unix.POLLIN}}
	if g.alive {
		fds = append(fds, unix.PollFd{Fd: int32(g.socket), Events: unix.POLLIN})
	}
	if g.lease != nil && !g.lease.ended {
		fds = append(fds, unix.PollFd{Fd: int32(g.lease.fd), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(fds, -1) // interrupted: step looks at everything anyway
	var drop [64]byte
	_, _ = unix.Read(g.timer, drop[:])
	if n, _ := unix.Read(g.deaths, drop[:]); n > 0 {
		g.died = true
	}
}

// arm sets the timer for the next time that something is due.
func (g *guardian) arm() {
	next := instant(0)
	switch {
	case g.asked == 0 && g.deadline != 0:
		next = g.askBy()
	case g.asked != 0:
		at := now()
		next = at.Add(run.Poll(at.Sub(max(g.asked, g.killed))))
		if g.report.Stuck != "" {
			next = at.Add(pollStuck)
		}
		if g.killed == 0 {
			next = earlier(next, g.killBy())
		}
	}
	spec := unix.ItimerSpec{}
	if next != 0 {
		spec.Value = unix.NsecToTimespec(max(int64(next), 1))
	}
	if err := unix.TimerfdSettime(g.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("BUG: set timer: " + err.Error())
	}
}

// receive reads what the agent has said. After its death the socket gives what
// was still in it, and then its end.
func (g *guardian) receive() {
	var buf [messageHead + maxCause]byte
	for g.alive {
		n, _, err := unix.Recvfrom(g.socket, buf[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			g.alive = false
		default:
			if m, err := decode(buf[:n]); err == nil {
				g.obey(m)
			}
		}
	}
}

func (g *guardian) obey(m message) {
	switch m.kind {
	case kindRenew:
		g.deadline = instant(m.number)
	case kindStart:
		g.startBy = instant(m.number)
	case kindStop:
		g.due = earlier(g.due, instant(m.number))
		if g.asked == 0 {
			g.ask(m.cause)
		}
	case kindSignal:
		if g.child != nil {
			g.child.signal(unix.Signal(m.number))
		}
	}
}
