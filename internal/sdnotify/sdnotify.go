// Package sdnotify tells the service manager how the agent does: sd_notify(3). Where none has asked to be told, nothing is
// said, and that it cannot be told is no reason for anything.
package sdnotify

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/bully-agent/bully-agent/agent"
)

func send(state string) { _, _ = daemon.SdNotify(false, state) }

// Ready says that the agent serves, or goes on after a reload.
func Ready() { send(daemon.SdNotifyReady) }

// Reloading says that the configuration is being read again, until Ready.
func Reloading() { send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec()) }

// Stopping says that the agent is on its way out.
func Stopping() { send(daemon.SdNotifyStopping) }

const (
	// pulseEvery is how often the service manager hears of an agent at least.
	pulseEvery = 5 * time.Second
	// extension is how much longer each pulse lets an end take, while a lose hook runs in it: one pulse may be late.
	extension = 3 * pulseEvery
)

// Pulse passes on what the agent's loop says of itself. The loop calls Take; nobody else may.
type Pulse struct {
	watched time.Duration // the loop must turn within it; 0: nobody watches
	said    string        // the text that was sent last
	send    func(state string)
}

// NewPulse reads from the environment what the service manager expects (WatchdogSec=). An expectation that
// cannot be read is none.
func NewPulse() *Pulse {
	watched, _ := daemon.SdWatchdogEnabled(false)
	return &Pulse{watched: watched, send: send}
}

// Every is the longest time between two calls of Take that the service manager puts up with, with room to spare.
func (p *Pulse) Every() time.Duration {
	if p.watched > 0 {
		return min(p.watched/3, pulseEvery)
	}
	return pulseEvery
}

// Take passes on one pulse: the text for people if it is another, the proof that the loop turns, and the wish for
// more time.
func (p *Pulse) Take(now agent.Pulse) {
	var lines []string
	if text := Text(now); text != p.said {
		p.said = text
		lines = append(lines, "STATUS="+text)
	}
	if now.IsDue && p.watched > 0 {
		lines = append(lines, daemon.SdNotifyWatchdog)
	}
	if now.IsLosing {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()))
	}
	if len(lines) > 0 {
		p.send(strings.Join(lines, "\n"))
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
