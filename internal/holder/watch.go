package holder

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// How a holder decides: step looks at everything at each waking, first at what was said. How
// the ending goes from TERM to KILL is run.Watch's.

// step does what is due now, and reports whether nothing is left to watch.
func (h *holding) step() (over bool) {
	h.judge(now())
	at, before := now(), h.watch.Stage
	if h.watch.Step(at, h.limit()) {
		return true
	}
	if h.watch.Stage == before {
		return false
	}
	if h.asked.IsZero() { // stragglers
		h.asked = at
	}
	if h.watch.Stage == run.Hanging {
		h.report.Stuck = run.Stuck(h.process.Members())
	}
	h.tell(Ending)
	return false
}

// judge begins the ending if nobody says any more that the command may run. It judges by a time that was read before it hears what
// was said: a holder that does not get to run in between does not take its own silence for that of the agent.
func (h *holding) judge(at time.Time) {
	h.receive()
	h.follow()
	switch {
	case !h.asked.IsZero():
	case h.isAlone():
		h.ask(AgentDied)
	case h.isSilent(at):
		h.report.Silent = true
		h.ask(AgentDied)
	}
}

// ask begins the ending.
func (h *holding) ask(cause string) { h.asked, h.report.Cause = now(), cause }

// askBy is when a silent agent is taken for dead; the zero time: never.
func (h *holding) askBy() time.Time {
	if h.terms.Deadline.IsZero() {
		return time.Time{}
	}
	return h.terms.Deadline.Add(-min(h.order.Budget, h.order.Grace+ending.KillSlack))
}

// isSilent reports whether it is.
func (h *holding) isSilent(at time.Time) bool {
	by := h.askBy()
	return !by.IsZero() && !at.Before(by)
}

// forever is longer than any command runs.
const forever = 100 * 365 * 24 * time.Hour

var errAsked = errors.New("asked to end")

// limit is what run.Watch has to know: nothing ends the command before the ending has begun,
// and then KILL comes in time for all to be dead when it must.
func (h *holding) limit() ending.Limit {
	l := ending.Limit{Timeout: forever, Grace: h.order.Grace}
	if !h.asked.IsZero() {
		l.Cut(h.asked, errAsked, earlier(h.due, h.terms.Deadline))
	}
	return l
}

// wait sleeps until something happens or is due: a message of the starter or its death, one
// of the lease's line, the death of a child, the timer.
func (h *holding) wait() {
	at := now()
	next := h.watch.Next(at, h.limit())
	if h.asked.IsZero() {
		next = earlier(next, h.askBy())
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(sidecar.Nano(next))}
	if err := unix.TimerfdSettime(h.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("BUG: set timer: " + err.Error())
	}
	fds := []unix.PollFd{{Fd: int32(h.timer), Events: unix.POLLIN}, {Fd: int32(h.deaths), Events: unix.POLLIN}}
	if h.alive {
		fds = append(fds, unix.PollFd{Fd: int32(h.socket), Events: unix.POLLIN})
	}
	if h.lease != nil && !h.lease.ended {
		fds = append(fds, unix.PollFd{Fd: int32(h.lease.fd), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(fds, -1) // interrupted: step looks at everything anyway
	var drop [64]byte
	_, _ = unix.Read(h.timer, drop[:])
	if n, _ := unix.Read(h.deaths, drop[:]); n > 0 {
		h.process.ReapOrphans() // while it runs, too: zombies would add up
	}
}

// receive reads what the starter has said. After its death the socket gives what
// was still in it, and then its end.
func (h *holding) receive() {
	var buf [maxMessage]byte
	for h.alive {
		n, _, err := unix.Recvfrom(h.socket, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			h.alive = false
		default:
			var l letter
			if n <= len(buf) && sidecar.Decode(buf[:n], &l) == nil {
				h.obey(l)
			}
		}
	}
}

// obey takes what was said. The deadline of a lease that the holder follows itself is in
// nobody's hand but the agent's.
func (h *holding) obey(l letter) {
	if h.lease != nil {
		l.Deadline = h.terms.Deadline
	}
	h.terms = l.Terms
	h.due = earlier(h.due, l.Due)
	if l.Stop && h.asked.IsZero() {
		h.ask(l.Cause)
	}
	if l.Signal != 0 && h.process != nil {
		h.process.Signal(unix.Signal(l.Signal))
	}
}
