// Package realtime lets this process run before ordinary ones, as corosync and
// keepalived do, and what it starts not.
//
// A leader that sixteen busy programs keep from its processor for 160 ms has lost
// its lease. Under SCHED_RR, at the lowest priority that there is, whatever is
// ordinary waits instead. It takes root, CAP_SYS_NICE or RLIMIT_RTPRIO of 1.
//
// The kernel knows threads, not processes: [Enter] raises each of this one's, and
// those to come are their clones. So would be the processes that it starts:
// [StartProcess] forks from threads that carry SCHED_RESET_ON_FORK, since nothing
// can be set between fork and exec in Go. What belongs to the agent itself,
// keeper and holders, inherits on purpose, is given [Environ] and calls [Inherit].
//
// All of it is about the whole process, and safe for concurrent use.
package realtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Priority among the real-time ones, 1 to 99: the lowest. It is above all that is
// ordinary, which is enough, and below the kernel's own threads of that kind.
const Priority = 1

// State is what is in force.
type State struct {
	Realtime bool
	Why      string // it is not, in a clause; "" if it is
	Memory   string // what of it is locked, or why it is not; "" unless Realtime was ever in force
}

// sheds says that children must not inherit: this process has entered.
var sheds atomic.Bool

var (
	mu    sync.Mutex // held while threads are raised or lowered, and over state
	state = State{Why: "real time was not asked for"}
)

// Current is what is in force now.
func Current() State {
	mu.Lock()
	defer mu.Unlock()
	return state
}

// Enter takes real time for all threads, and locks the memory. It is for the start
// of a process: the fewer threads there are the sooner it is done. The error is a
// *Refused if the kernel says no; nothing has changed then.
func Enter() error {
	mu.Lock()
	defer mu.Unlock()
	if err := raise(); err != nil {
		state = State{Why: err.Error()}
		return err
	}
	sheds.Store(true)
	state = State{Realtime: true, Memory: lockMemory()}
	return nil
}

// marker tells a process that its parent has entered, and that it inherits.
const marker = "BULLY_REALTIME"

// Environ is what a process that belongs to this one needs in its environment, so
// that what it starts is ordinary; empty if this one has not entered.
func Environ() []string {
	if !sheds.Load() {
		return nil
	}
	return []string{marker + "=inherited"}
}

// Inherit is Enter for a process with Environ. Its threads are the parent's clones,
// so there is nothing left to raise; where the parent had been lowered at that moment
// it stays ordinary. It is watched as the parent is. In any other process Inherit does
// nothing.
func Inherit() {
	if os.Getenv(marker) == "" {
		return
	}
	os.Unsetenv(marker)
	mu.Lock()
	defer mu.Unlock()
	sheds.Store(true)
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && isRealtime(attr) {
		state = State{Realtime: true, Memory: lockMemory()}
		go Watch(context.Background(), func(State) {})
	}
}

func isRealtime(attr *unix.SchedAttr) bool {
	return attr.Policy == unix.SCHED_RR || attr.Policy == unix.SCHED_FIFO
}

// raise puts every thread that is ordinary under SCHED_RR. A flag that sheds it at
// a fork stays.
func raise() error {
	err := eachThread(func(attr *unix.SchedAttr) bool {
		if isRealtime(attr) {
			return false // also one that somebody has started with chrt
		}
		*attr = unix.SchedAttr{Policy: unix.SCHED_RR, Priority: Priority, Flags: attr.Flags & unix.SCHED_FLAG_RESET_ON_FORK}
		return true
	})
	if errors.Is(err, unix.EPERM) {
		return refused()
	}
	return err
}

// Ordinary makes every thread of this process ordinary, at that nice value, and those to come: it takes no right to
// become less. It is for a process that belongs to the agent and must not disturb it, whatever it inherits.
func Ordinary(nice int) error {
	mu.Lock()
	defer mu.Unlock()
	return eachThread(func(attr *unix.SchedAttr) bool {
		if attr.Policy == unix.SCHED_NORMAL && attr.Nice == int32(nice) {
			return false
		}
		*attr = unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: int32(nice), Flags: attr.Flags & unix.SCHED_FLAG_RESET_ON_FORK}
		return true
	})
}

// lower makes every thread ordinary again. It takes no right.
func lower(nice int) error {
	return eachThread(func(attr *unix.SchedAttr) bool {
		if !isRealtime(attr) {
			return false
		}
		*attr = unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: int32(nice), Flags: attr.Flags & unix.SCHED_FLAG_RESET_ON_FORK}
		return true
	})
}

// eachThread shows change every thread's attributes, and sets them where it reports
// true, until it has nothing more to change: a thread that one of the others made
// meanwhile is like its maker was.
func eachThread(change func(*unix.SchedAttr) bool) error {
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list own threads: %w", err)
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return fmt.Errorf("list own threads: %w", err)
			}
			attr, err := unix.SchedGetAttr(id, 0)
			if errors.Is(err, unix.ESRCH) {
				continue // it has ended
			}
			if err != nil {
				return fmt.Errorf("read the scheduling of a thread: %w", err)
			}
			if !change(attr) {
				continue
			}
			if err := unix.SchedSetAttr(id, attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("set the scheduling of a thread: %w", err)
			}
			again = true
		}
	}
	return nil
}
