// Package sdnotify tells the service manager how the agent does: sd_notify(3). Where none has asked to be told, nothing is
// said, and that it cannot be told is no reason for anything.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/bully-agent/bully-agent/agent"
)

// patience is how long what is said once may wait for room in the service manager's queue. Arbitrary: an end or a
// reload is no later for it than anybody would notice.
const patience = 100 * time.Millisecond

// send gives a message to the service manager; false: it was dropped, or nobody has asked for any. The queue is full
// where the service manager stands still, and daemon.SdNotify would wait there for ever: send waits as long as it
// may, and for 0 not at all. No deadline in place of that 0, since a busy host would miss it with room in the queue.
func send(state string, wait time.Duration) bool {
	to := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	if to.Name == "" {
		return false
	}
	conn, err := net.DialUnix(to.Net, nil, to)
	if err != nil {
		return false
	}
	defer conn.Close()
	if wait > 0 {
		_ = conn.SetWriteDeadline(time.Now().Add(wait))
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var sent error
	err = raw.Write(func(fd uintptr) (isDone bool) {
		_, sent = syscall.Write(int(fd), []byte(state))
		return wait == 0 || !errors.Is(sent, syscall.EAGAIN)
	})
	return err == nil && sent == nil
}

// Ready says that the agent serves, or goes on after a reload.
func Ready() { send(daemon.SdNotifyReady, patience) }

// Reloading says that the configuration is being read again, until Ready.
func Reloading() { send(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), patience) }

// Stopping says that the agent is on its way out.
func Stopping() { send(daemon.SdNotifyStopping, patience) }

const (
	// pulseEvery is how often the service manager hears of an agent at least.
	pulseEvery = 5 * time.Second
	// extension is how much longer each pulse lets an end take, while a lose hook runs in it: one pulse may be late.
	extension = 3 * pulseEvery
	// pulseLeast keeps the loop from turning for an absurd WatchdogSec= alone. Arbitrary.
	pulseLeast = 20 * time.Millisecond
)

// Pulse passes on what the agent's loop says of itself. The loop calls Take; nobody else may.
type Pulse struct {
	watched time.Duration // the loop must turn within it; 0: nobody watches
	said    string        // the text that was sent last
}

// NewPulse reads from the environment what the service manager expects (WatchdogSec=). An expectation that
// cannot be read is none.
func NewPulse() *Pulse {
	watched, _ := daemon.SdWatchdogEnabled(false)
	return &Pulse{watched: watched}
}

// Every is the longest time between two calls of Take that the service manager puts up with, with room to spare.
func (p *Pulse) Every() time.Duration {
	if p.watched > 0 {
		return min(max(p.watched/3, pulseLeast), pulseEvery)
	}
	return pulseEvery
}

// Take passes on one pulse: the text for people if it is another, the proof that the loop turns, and the wish for
// more time. It does not wait: what finds no room in the service manager's queue is dropped, and the text is said
// again by the next pulse.
func (p *Pulse) Take(now agent.Pulse) {
	var lines []string
	text := Text(now)
	if text != p.said {
		lines = append(lines, "STATUS="+text)
	}
	if now.IsDue && p.watched > 0 {
		lines = append(lines, daemon.SdNotifyWatchdog)
	}
	if now.IsLosing {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()))
	}
	if len(lines) > 0 && send(strings.Join(lines, "\n"), 0) {
		p.said = text
	}
}

// Text is the line that `systemctl status` shows, such as "leader, epoch 42, 3 of 3" or "follower of alpha, epoch 42, 2 of
// 3": the last are the hosts that answer, of those known.
func Text(now agent.Pulse) string {
	parts := []string{now.Role}
	switch {
	case now.IsStopping:
		parts[0] = "stopping"
	case now.LetsGo:
		parts[0] = "letting go"
	case now.Leads:
	case now.Leader == "":
		parts = append(parts, "no leader known")
	default:
		parts[0] += " of " + now.Leader
	}
	if now.Epoch > 0 {
		parts = append(parts, fmt.Sprintf("epoch %d", now.Epoch))
	}
	parts = append(parts, fmt.Sprintf("%d of %d", now.Alive, now.Members))
	if now.IsLosing {
		parts = append(parts, "lose hook runs")
	}
	return strings.Map(oneLine, strings.Join(parts, ", "))
}

// oneLine keeps a name that another host has chosen from ending the line: the next one would be an order.
func oneLine(r rune) rune {
	if !unicode.IsPrint(r) {
		return '?'
	}
	return r
}
