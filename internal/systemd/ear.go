package systemd

import (
	"sync"

	"github.com/godbus/dbus/v5"
)

// ear hears what systemd says on a connection, and takes nobody else's word: every user of a host may send any signal to
// everybody on the system's bus, and one to us alone that no match asks for.
//
// A signal only has somebody look again. What a job has come to is the one thing that is told by a signal alone.
type ear struct {
	heard chan struct{} // holds a token while something is to be looked at

	mu      sync.Mutex
	owner   string // systemd's own name on the bus
	unit    string // whose jobs count
	results map[dbus.ObjectPath]string
}

func newEar() *ear { return &ear{heard: make(chan struct{}, 1)} }

// trust names systemd's connection with the bus.
func (e *ear) trust(owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner = owner
}

// expect has the results of a unit's jobs kept from now on.
func (e *ear) expect(unit string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unit, e.results = unit, map[dbus.ObjectPath]string{}
}

// result is what a job has come to; "" before its end. A result comes before whatever systemd answers afterwards.
func (e *ear) result(job dbus.ObjectPath) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.results[job]
}

// DeliverSignal implements dbus.SignalHandler: it takes a signal in, on the connection's goroutine.
func (e *ear) DeliverSignal(_, member string, s *dbus.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Sender == daemon && member == "NameOwnerChanged" {
		e.onOwner(s.Body)
		return
	}
	if s.Sender != e.owner {
		return
	}
	if member == "JobRemoved" {
		e.onJob(s.Body)
	}
	select {
	case e.heard <- struct{}{}:
	default:
	}
}

func (e *ear) onOwner(body []any) {
	var name, before, now string
	if dbus.Store(body, &name, &before, &now) == nil && name == manager {
		e.owner = now
	}
}

// onJob keeps the result of a job of the unit. There are as many as others give orders for it while somebody waits.
func (e *ear) onJob(body []any) {
	var (
		id           uint32
		job          dbus.ObjectPath
		unit, result string
	)
	if dbus.Store(body, &id, &job, &unit, &result) == nil && unit == e.unit && e.results != nil {
		e.results[job] = result
	}
}
