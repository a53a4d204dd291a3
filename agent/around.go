package agent

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// What a seat has around it: surroundings.

func (a *agent) now() time.Time { return a.cfg.Now() }

func (a *agent) seen() *view { return &a.view }

func (a *agent) send(to netip.AddrPort, f wire.Frame) {
	a.out = wire.Append(a.out[:0], &f)
	if err := a.lan.SendFrame(to, a.out); err != nil {
		a.counters.add("send_error") // like a lost datagram
	}
}

func (a *agent) tellLeader(e wire.Epoch) { a.members().SetLeader(e) }

func (a *agent) tellLedger(b []byte) { a.members().SetLedger(b) }

func (a *agent) departed(id wire.ID, nonce uint32) { a.members().MarkLeft(id, nonce) }

func (a *agent) count(name string, n uint64) { a.counters.addMany(name, n) }

func (a *agent) event(e control.Event) {
	e.Time = wallClock()
	a.ring.Append(e)
}

// warnRarely logs a warning at most once a minute for each set of arguments.
func (a *agent) warnRarely(message string, args ...any) {
	if a.isRare(message, args...) {
		a.log.Warn(message, args...)
	}
}

// isRare reports whether this was not said within the last minute; then it is to be said now.
func (a *agent) isRare(message string, args ...any) bool {
	key := fmt.Sprint(message, args)
	now := a.cfg.Now()
	if now.Before(a.quietAt[key]) {
		return false
	}
	if len(a.quietAt) > 256 {
		clear(a.quietAt) // bounded whatever others send
	}
	a.quietAt[key] = now.Add(time.Minute)
	return true
}
