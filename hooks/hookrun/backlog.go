package hookrun

import (
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// backlog writes files for hooks, in order and on a goroutine of its own, which
// lives only while there is something to write. A disk that hangs therefore
// delays no hook: nothing about hooks delays the protocol, and a lose-leadership
// hook must not wait for a journal. The zero value is ready.
type backlog struct {
	mu   sync.Mutex
	todo []func()
	idle chan struct{} // not nil while the goroutine lives; closed when it ends
}

// backlogSize bounds what waits for a slow disk. Arbitrary; 16 runs' output is
// 1 MiB.
const backlogSize = 16

// add queues a write that must not be lost. Its caller sees to it that only one
// of its kind waits.
func (b *backlog) add(write func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.push(write)
}

// tryAdd queues one write. It reports false, and does nothing, when too much waits.
func (b *backlog) tryAdd(write func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.todo) >= backlogSize {
		return false
	}
	b.push(write)
	return true
}

func (b *backlog) push(write func()) {
	b.todo = append(b.todo, write)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.work(b.idle)
	}
}

func (b *backlog) work(idle chan struct{}) {
	defer close(idle)
	for {
		b.mu.Lock()
		if len(b.todo) == 0 {
			b.idle = nil
			b.mu.Unlock()
			return
		}
		write := b.todo[0]
		b.todo = b.todo[1:]
		b.mu.Unlock()
		write()
	}
}

// wait gives the writes that are queued now up to d to reach the disk.
func (b *backlog) wait(d time.Duration) {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		run.Within(idle, d)
	}
}
