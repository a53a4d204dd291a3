package realtime

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// StartProcess is os.StartProcess for a child that is to be ordinary: SCHED_OTHER,
// nice 0. In a process that has not entered it is just that.
//
// The child's parent is a thread that lasts as long as the process, so Pdeathsig
// means the process (go.dev/issue/27505).
func StartProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if !sheds.Load() {
		return os.StartProcess(name, argv, attr)
	}
	o := &order{name: name, argv: argv, attr: attr, done: make(chan struct{})}
	select {
	case orders <- o: // to a thread that has nothing to do
	default:
		go forker(o)
	}
	<-o.done
	return o.process, o.err
}

// order is a process to be started.
type order struct {
	name string
	argv []string
	attr *os.ProcAttr

	process *os.Process
	err     error
	done    chan struct{} // closed once the two above are set
}

// orders go to idle forkers; there are as many as forks were ever under way at once.
// One that hangs (a program on a dead network file system) holds up no other, as long
// as there are more of the runtime's processors than forks that hang.
var orders = make(chan *order)

// forker is one thread that forks, for ever. It stays real time itself: a fork holds
// one of the runtime's processors until the child has executed, and an ordinary
// thread with that in its hands would stop the others.
//
// That the runtime never clones such a thread, which would make an ordinary one of the
// agent's own, is what LockOSThread is for, too.
func forker(o *order) {
	runtime.LockOSThread()
	if err := shed(); err != nil {
		o.err = fmt.Errorf("shed real time: %w", err)
		close(o.done)
		return // and the thread with it
	}
	for ; ; o = <-orders {
		o.process, o.err = os.StartProcess(o.name, o.argv, o.attr)
		close(o.done)
	}
}

// Shed makes what the calling thread starts ordinary, for one that forks itself since
// it does more than that: it is locked, and never unlocked. In a process that has not
// entered it does nothing.
func Shed() error {
	if !sheds.Load() {
		return nil
	}
	return shed()
}

// shed sets the flag on this thread and leaves its policy.
func shed() error {
	mu.Lock() // or it undoes what raise and lower do meanwhile
	defer mu.Unlock()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return err
	}
	attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	return unix.SchedSetAttr(0, attr, 0)
}
