package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	manager     = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerCall = "org.freedesktop.systemd1.Manager."
	properties  = "org.freedesktop.DBus.Properties"
	daemon      = "org.freedesktop.DBus"

	// answers bounds each call. A systemd that reloads the units of a large host is silent for seconds.
	answers = 30 * time.Second

	// knockEvery is far longer than an answer takes. Arbitrary.
	knockEvery = 50 * time.Millisecond
)

// errNone is the end of whatever needs systemd, where there is none.
var errNone = errors.New("this host was not booted by systemd (no /run/systemd/system): expected a host that was, or a command in the unit's place")

var (
	// errSilent is the end of a call that was not answered in its time.
	errSilent = errors.New("systemd does not answer")
	// errGone is the end of all calls of a connection that has ended.
	errGone = errors.New("the connection with D-Bus has ended")
)

// dial connects with systemd's manager. The connection ends with ctx.
type dial func(ctx context.Context, e *ear) (*bus, error)

// bus is a connection with systemd's manager. One goroutine uses it. It is lost when D-Bus ends: then all calls fail.
type bus struct {
	conn  *dbus.Conn
	close context.CancelFunc
	*ear
	isDirect bool // no message bus is in between
	watched  map[dbus.ObjectPath]bool
}

// open connects with the manager of this host: by the system's bus, and where that is not there, and for root, by the
// socket that systemctl has for that.
func open(ctx context.Context, e *ear) (*bus, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, errNone
	}
	b, err := connect(ctx, dbus.SystemBusPrivate, e, false)
	if err != nil && os.Geteuid() == 0 {
		direct := func(opts ...dbus.ConnOption) (*dbus.Conn, error) {
			return dbus.Dial("unix:path=/run/systemd/private", opts...)
		}
		if b, err := connect(ctx, direct, e, true); err == nil {
			return b, nil
		}
	}
	return b, err
}

// connect makes a connection that may send, and hear.
func connect(ctx context.Context, to func(...dbus.ConnOption) (*dbus.Conn, error), e *ear, isDirect bool) (*bus, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(answers, cancel)
	defer late.Stop()
	done := make(chan error, 1)
	b := &bus{close: cancel, ear: e, isDirect: isDirect, watched: map[dbus.ObjectPath]bool{}}
	go func() { // to connect with a socket whose queue is full takes as long as that
		conn, err := to(dbus.WithContext(ctx), dbus.WithSignalHandler(e))
		if err == nil {
			b.conn = conn
			err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
		}
		if err == nil && !isDirect {
			err = conn.Hello()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errSilent
	}
	if err == nil {
		err = b.listen(ctx)
	}
	if err != nil {
		cancel() // and with it what has been connected, or is yet
		return nil, fmt.Errorf("no connection with systemd: %w", err)
	}
	return b, nil
}

// listen has systemd tell of jobs and units, and the ear know whose word that is.
func (b *bus) listen(ctx context.Context) error {
	if b.isDirect {
		b.trust(manager)
		if err := b.knock(ctx); err != nil {
			return err
		}
	} else {
		if err := b.match(ctx, dbus.WithMatchSender(daemon), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, manager)); err != nil {
			return err
		}
		var owner string
		if err := b.call(ctx, daemon, "/org/freedesktop/DBus", daemon+".GetNameOwner", manager).Store(&owner); err != nil {
			return err
		}
		b.trust(owner)
		if err := b.match(ctx, dbus.WithMatchSender(manager), dbus.WithMatchMember("JobRemoved")); err != nil {
			return err
		}
	}
	return b.order(ctx, "Subscribe").Err
}

// knock returns when systemd answers on its own socket. A first message that reaches it in one piece with the end of the
// authentication lies there until another one comes (systemd 252).
func (b *bus) knock(ctx context.Context) error {
	for {
		short, cancel := context.WithTimeout(ctx, knockEvery)
		err := b.call(short, manager, managerPath, daemon+".Peer.Ping").Err
		cancel()
		if !errors.Is(err, errSilent) || ctx.Err() != nil {
			return err
		}
	}
}

// match has the bus pass signals on. Without one all of systemd's come.
func (b *bus) match(ctx context.Context, options ...dbus.MatchOption) error {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	return b.conn.AddMatchSignalContext(ctx, options...)
}

// watch has changes of units heard. It reports whether all of them were already.
func (b *bus) watch(ctx context.Context, all []facts) (isSame bool, err error) {
	isSame = true
	for _, f := range all {
		if b.watched[f.path] {
			continue
		}
		if !b.isDirect {
			err := b.match(ctx, dbus.WithMatchSender(manager), dbus.WithMatchObjectPath(f.path), dbus.WithMatchInterface(properties))
			if err != nil {
				return false, err
			}
		}
		b.watched[f.path], isSame = true, false
	}
	return isSame, nil
}

// call calls a method of an object; it obeys ctx.
func (b *bus) call(ctx context.Context, name string, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	c := b.conn.Object(name, path).CallWithContext(ctx, method, 0, args...)
	var theirs dbus.Error
	switch {
	case c.Err == nil, errors.As(c.Err, &theirs):
	case ctx.Err() != nil:
		c.Err = errSilent
	case b.conn.Context().Err() != nil:
		c.Err = errGone
	}
	return c
}

// order calls a method of the manager.
func (b *bus) order(ctx context.Context, method string, args ...any) *dbus.Call {
	return b.call(ctx, manager, managerPath, managerCall+method, args...)
}

// hold has systemd remember a unit for as long as the connection lasts: how it came to be down is else forgotten at once. It
// is no matter if that cannot be had, as without a bus: a reason is then told less well.
func (b *bus) hold(ctx context.Context, name string) { _ = b.order(ctx, "RefUnit", name) }

// start has systemd start a unit, and all that it needs; what is under way for it is replaced, as systemctl(1) does.
func (b *bus) start(ctx context.Context, name string) (job dbus.ObjectPath, err error) {
	err = b.order(ctx, "StartUnit", name, "replace").Store(&job)
	return job, err
}

// stop has systemd stop a unit. One that is not there is stopped.
func (b *bus) stop(ctx context.Context, name string) error {
	err := b.order(ctx, "StopUnit", name, "replace").Err
	if isNamed(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return nil
	}
	return err
}

// look reads a unit, which systemd loads if it has not. One that is not there has facts, too.
func (b *bus) look(ctx context.Context, name string) (facts, error) {
	var path dbus.ObjectPath
	if err := b.order(ctx, "LoadUnit", name).Store(&path); err != nil {
		return facts{}, err
	}
	var all map[string]dbus.Variant
	if err := b.call(ctx, manager, path, properties+".GetAll", "").Store(&all); err != nil {
		return facts{}, err
	}
	return read(name, path, all), nil
}

// maxUnits bounds what is looked at because of one unit. Arbitrary: far more than anybody makes PartOf= one.
const maxUnits = 256

// lookAll reads a unit, and then all that is PartOf= it, PartOf= that and so on.
func (b *bus) lookAll(ctx context.Context, name string) ([]facts, error) {
	first, err := b.look(ctx, name)
	if err != nil {
		return nil, err
	}
	all := []facts{first}
	seen := map[string]bool{first.name: true}
	for i := 0; i < len(all); i++ {
		for _, part := range all[i].parts {
			if seen[part] || len(all) >= maxUnits {
				continue
			}
			f, err := b.look(ctx, part)
			if err != nil {
				return nil, err
			}
			seen[part] = true
			f.isPulled = all[i].pulls[part]
			all = append(all, f)
		}
	}
	return all, nil
}

// remaining are the processes of a unit; nil where systemd does not say.
func (b *bus) remaining(ctx context.Context, name string) (pids []uint32) {
	var processes []struct {
		Group   string
		PID     uint32
		Command string
	}
	_ = b.order(ctx, "GetUnitProcesses", name).Store(&processes)
	for _, p := range processes {
		pids = append(pids, p.PID)
	}
	return pids
}

// wait returns when the ear has heard something, and after a while in any case; false: the connection or ctx has ended.
func (b *bus) wait(ctx context.Context, atMost time.Duration) bool {
	late := time.NewTimer(atMost)
	defer late.Stop()
	select {
	case <-b.heard:
	case <-late.C:
	case <-b.conn.Context().Done():
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// isNamed reports whether an error is D-Bus's of one of these names.
func isNamed(err error, names ...string) bool {
	var theirs dbus.Error
	if !errors.As(err, &theirs) {
		return false
	}
	for _, name := range names {
		if theirs.Name == name {
			return true
		}
	}
	return false
}
