package holder

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
)

// follower follows the agent's lease on the connection that Config.Lease has handed on, so
// that nobody stands between the agent and the command's end: its starter may be
// stopped for as long as it likes.
type follower struct {
	fd    int
	epoch control.Epoch // of the leadership on whose strength the command runs
	heard []byte        // of a line that has not ended
	ended bool          // the agent is gone
}

// maxLine is far above what the agent says in one line.
const maxLine = 16 << 10

func newFollower(fd int, o *order) *follower {
	unix.CloseOnExec(fd)
	return &follower{fd: fd, epoch: control.Epoch(o.Record.Epoch), heard: o.Heard}
}

// read gives the leases that have come, oldest first. What is no lease ends the line, as
// the agent's death does.
func (f *follower) read() (news []control.Lease) {
	var buf [4 << 10]byte
	for {
		for {
			line, rest, isWhole := bytes.Cut(f.heard, []byte("\n"))
			if !isWhole {
				break
			}
			f.heard = rest
			lease, err := control.ReadLease(line)
			if err != nil {
				f.ended = true
				return news
			}
			news = append(news, lease)
		}
		n, _, err := unix.Recvfrom(f.fd, buf[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return news
		case err != nil || n == 0 || len(f.heard) > maxLine:
			f.ended = true
			return news
		default:
			f.heard = append(f.heard, buf[:n]...)
		}
	}
}

// follow takes what the agent says of its lease. What is left of it is the command's also
// when that is being ended; where our starter is dead, it gets no longer.
func (h *holding) follow() {
	if h.lease == nil || h.lease.ended {
		return
	}
	for _, l := range h.lease.read() {
		isOurs := l.Epoch == h.lease.epoch
		deadline := now()
		if isOurs && l.Until > 0 {
			deadline = time.Unix(0, l.Until)
		}
		if h.alive || deadline.Before(h.terms.Deadline) {
			h.terms.Deadline = deadline
		}
		if h.asked.IsZero() && !(isOurs && l.Leader && l.Ready) {
			h.report.Loss = l.Cause
			h.ask(LeaseLost)
		}
	}
}

// isAlone reports whether nobody is left to say that the command may go on.
func (h *holding) isAlone() bool { return !h.alive || h.lease != nil && h.lease.ended }

// letGo tells the agent that nothing of the command is left. Our starter keeps
// the connection open until then, for the case that we are killed.
func (h *holding) letGo() {
	if h.lease != nil {
		_ = unix.Shutdown(h.lease.fd, unix.SHUT_RDWR)
	}
}
