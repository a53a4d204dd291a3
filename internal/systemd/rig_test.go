package systemd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus" // how it names the object of a unit, beside how systemd does
	bus1 "github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

func TestMain(m *testing.M) {
	waiting.Together(4) // ends of contexts are waited for
	goleak.VerifyTestMain(m)
}

// patience bounds what is waited for; nothing takes as long.
const patience = 30 * time.Second

// rig is a message bus of its own, with a manager that stands in for systemd's: it has the units that a test gives it, and
// they do what the test says.
type rig struct {
	t   *testing.T
	dir string

	daemon *exec.Cmd
	conn   *bus1.Conn // the manager's

	mu     sync.Mutex
	units  map[string]*unit
	orders []string // "start web.service"
	jobs   uint32
	notes  []string
	denies bool // all orders
}

// unit is one of the manager's.
type unit struct {
	rig   *rig
	name  string
	props map[string]any

	onStart, onStop func(*job)
	onKill          func() // nil: it takes no notice
	processes       []uint32
}

// job is one for a unit, until its end.
type job struct {
	*unit
	id uint32
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("skipped: the command dbus-daemon is not installed (package dbus-daemon)")
	}
	r := &rig{t: t, dir: t.TempDir(), units: map[string]*unit{}}
	r.plug()
	t.Cleanup(r.pull)
	return r
}

const policy = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>custom</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow send_type="signal"/></policy></busconfig>`

func (r *rig) address() string { return "unix:path=" + filepath.Join(r.dir, "bus") }

// plug starts the bus, with the manager on it.
func (r *rig) plug() {
	r.t.Helper()
	config := filepath.Join(r.dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, policy, filepath.Join(r.dir, "bus")), 0o600); err != nil {
		r.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(r.dir, "bus")) // of one that was killed
	r.daemon = exec.Command("dbus-daemon", "--nofork", "--config-file", config)
	if err := r.daemon.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.board()
}

// board connects the manager with the bus.
func (r *rig) board() {
	r.t.Helper()
	r.until("the bus", func() bool {
		conn, err := bus1.Connect(r.address())
		if err == nil {
			r.mu.Lock()
			r.conn = conn
			r.mu.Unlock()
		}
		return err == nil
	})
	r.must(r.conn.Export(&boss{r}, managerPath, manager+".Manager"))
	r.mu.Lock()
	for _, u := range r.units {
		r.export(u)
	}
	r.mu.Unlock()
	if _, err := r.conn.RequestName(manager, bus1.NameFlagDoNotQueue); err != nil {
		r.t.Fatal(err)
	}
}

// pull kills the bus.
func (r *rig) pull() {
	_ = r.daemon.Process.Kill()
	_ = r.daemon.Wait()
	r.conn.Close()
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// add gives the manager a unit that is down, with properties beside the usual ones: names and values in turn.
func (r *rig) add(name string, more ...any) *unit {
	u := &unit{rig: r, name: name, props: map[string]any{"Id": name, "LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead",
		"Job": jobOf(0), "Result": "success", "KillMode": "control-group", "CanStart": true, "NRestarts": uint32(0), "ExecMainStatus": int32(0)}}
	u.put(more)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units[name] = u
	r.export(u)
	return u
}

type pair struct {
	ID   uint32
	Path bus1.ObjectPath
}

type complaint struct{ Name, Text string }

func jobOf(id uint32) pair {
	if id == 0 {
		return pair{0, "/"}
	}
	return pair{id, bus1.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", id))}
}

func (u *unit) put(more []any) {
	for i := 0; i+1 < len(more); i += 2 {
		u.props[more[i].(string)] = more[i+1]
	}
}

func (u *unit) path() bus1.ObjectPath {
	return bus1.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(u.name))
}

func (r *rig) export(u *unit) { r.must(r.conn.Export(&object{u}, u.path(), properties)) }

// now changes properties of a unit, and tells who listens.
func (u *unit) now(active, sub string, more ...any) {
	u.rig.mu.Lock()
	u.props["ActiveState"], u.props["SubState"] = active, sub
	u.put(more)
	u.rig.mu.Unlock()
	u.tell()
}

func (u *unit) tell() {
	u.rig.emit(u.path(), properties+".PropertiesChanged", manager+".Unit", map[string]bus1.Variant{}, []string{})
}

// emit sends a signal; without a bus it is lost.
func (r *rig) emit(path bus1.ObjectPath, name string, values ...any) {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	_ = conn.Emit(path, name, values...)
}

func (u *unit) is(key string) any {
	u.rig.mu.Lock()
	defer u.rig.mu.Unlock()
	return u.props[key]
}

// ends has the job end with a result, and the unit be so.
func (j *job) ends(result, active, sub string, more ...any) {
	j.now(active, sub, append(more, "Job", jobOf(0))...)
	j.rig.emit(managerPath, manager+".Manager.JobRemoved", j.id, jobOf(j.id).Path, j.name, result)
}

// starts says what an order to start the unit does; nil: it starts at once, and well.
func (u *unit) starts(by func(*job)) {
	u.rig.mu.Lock()
	defer u.rig.mu.Unlock()
	u.onStart = by
}

// stops says what an order to stop it does.
func (u *unit) stops(by func(*job)) {
	u.rig.mu.Lock()
	defer u.rig.mu.Unlock()
	u.onStop = by
}

func starts(j *job) { j.ends("done", "active", "running") }
func stops(j *job)  { j.ends("done", "inactive", "dead") }

// object is a unit on the bus.
type object struct{ *unit }

func (o *object) GetAll(string) (map[string]bus1.Variant, *bus1.Error) {
	o.rig.mu.Lock()
	defer o.rig.mu.Unlock()
	all := map[string]bus1.Variant{}
	for k, v := range o.props {
		all[k] = bus1.MakeVariant(v)
	}
	return all, nil
}

// boss is the manager on the bus.
type boss struct{ *rig }

func (b *boss) Subscribe() *bus1.Error { return nil }

func (b *boss) RefUnit(string) *bus1.Error { return nil }

// LoadUnit gives a unit, and one that is not there for any other name, as systemd does.
func (b *boss) LoadUnit(name string) (bus1.ObjectPath, *bus1.Error) {
	b.mu.Lock()
	u := b.units[name]
	b.mu.Unlock()
	if u == nil {
		u = b.add(name, "LoadState", "not-found", "LoadError", complaint{"org.freedesktop.systemd1.NoSuchUnit", "Unit not found."})
	}
	return u.path(), nil
}

func (b *boss) StartUnit(name, mode string) (bus1.ObjectPath, *bus1.Error) {
	return b.order("start", name, func(u *unit) func(*job) { return u.onStart }, starts)
}

func (b *boss) StopUnit(name, mode string) (bus1.ObjectPath, *bus1.Error) {
	return b.order("stop", name, func(u *unit) func(*job) { return u.onStop }, stops)
}

func (b *boss) KillUnit(name, whom string, signal int32) *bus1.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders = append(b.orders, fmt.Sprintf("kill %s %s %d", name, whom, signal))
	if does := b.units[name].onKill; does != nil {
		b.units[name].onKill = nil
		go does()
	}
	return nil
}

func (b *boss) ResetFailedUnit(name string) *bus1.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders = append(b.orders, "reset-failed "+name)
	b.units[name].put([]any{"Result", "success", "ActiveState", "inactive"})
	return nil
}

func (b *boss) GetUnitProcesses(name string) ([]process, *bus1.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []process{}
	for _, pid := range b.units[name].processes {
		all = append(all, process{"/", pid, "stuck"})
	}
	return all, nil
}

type process struct {
	Group   string
	PID     uint32
	Command string
}

func (b *boss) order(verb, name string, of func(*unit) func(*job), usual func(*job)) (bus1.ObjectPath, *bus1.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.denies {
		return "/", bus1.NewError("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", []any{"Interactive authentication required."})
	}
	b.orders = append(b.orders, verb+" "+name)
	u := b.units[name]
	b.jobs++
	j := &job{unit: u, id: b.jobs}
	u.props["Job"] = jobOf(j.id)
	does := of(u)
	if does == nil {
		does = usual
	}
	go does(j)
	return jobOf(j.id).Path, nil
}

// ordered are the orders so far.
func (r *rig) ordered() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.orders, ", ")
}

// unit gives the Unit under test of a name, and notes what it has to say.
func (r *rig) unit(name string) *Unit {
	u := NewUnit(name, func(line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, line)
	})
	u.dial = r.dial
	return u
}

func (r *rig) dial(ctx context.Context, e *ear) (*bus, error) {
	return connect(ctx, func(opts ...bus1.ConnOption) (*bus1.Conn, error) { return bus1.Dial(r.address(), opts...) }, e, false)
}

// noted are the lines with a text in them.
func (r *rig) noted(text string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.notes {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// ctx ends with the test, or when nobody can be patient any more.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// kept is a Keep that goes on.
type kept struct {
	rig  *rig
	stop context.CancelFunc
	end  chan error
}

// keep has a Unit kept, and returns when it has been looked at.
func (r *rig) keep(u *Unit) *kept {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx())
	k := &kept{r, cancel, make(chan error, 1)}
	u.say("")
	go func() { k.end <- u.Keep(ctx) }()
	r.until("a first look", func() bool { return u.State() != "" })
	return k
}

// fails waits for its end with an error, and gives that.
func (k *kept) fails() string {
	k.rig.t.Helper()
	select {
	case err := <-k.end:
		if err == nil {
			k.rig.t.Fatal("Keep ended with nil")
		}
		return err.Error()
	case <-time.After(patience):
		k.rig.t.Fatal("Keep goes on")
	}
	return ""
}

// goesOn ends it, and it must not have failed before.
func (k *kept) goesOn() {
	k.rig.t.Helper()
	k.stop()
	select {
	case err := <-k.end:
		if err != nil {
			k.rig.t.Errorf("Keep: %v", err)
		}
	case <-time.After(patience):
		k.rig.t.Fatal("Keep does not end with its context")
	}
}

// says compares an error's text.
func says(t *testing.T, err error, want string) {
	t.Helper()
	got := "nil"
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
}

// is compares.
func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
