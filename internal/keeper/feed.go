package keeper

import "sync"

// feed passes on what is put into it, in order and at its reader's pace. Who puts something in does
// not wait. Safe for concurrent use.
type feed[T any] struct {
	out  chan T        // what is unread when pass returns can still be read
	some chan struct{} // holds a token when something may wait

	mu      sync.Mutex
	waiting []T
}

// feedRoom is how much outlives pass unread. More than an agent that stops will ever leave.
const feedRoom = 64

func newFeed[T any]() *feed[T] {
	return &feed[T]{out: make(chan T, feedRoom), some: make(chan struct{}, 1)}
}

func (f *feed[T]) put(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, v)
	f.wake()
}

// putFirst has something passed on before all that waits.
func (f *feed[T]) putFirst(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append([]T{v}, f.waiting...)
	f.wake()
}

func (f *feed[T]) wake() {
	select {
	case f.some <- struct{}{}:
	default:
	}
}

func (f *feed[T]) next() (v T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return v, false
	}
	v, f.waiting = f.waiting[0], f.waiting[1:]
	return v, true
}

// pass passes on until end is closed.
func (f *feed[T]) pass(end <-chan struct{}) {
	for {
		select {
		case <-f.some:
		case <-end:
			return
		}
		for v, ok := f.next(); ok; v, ok = f.next() {
			select {
			case f.out <- v:
			case <-end:
				f.putFirst(v)
				return
			}
		}
	}
}

// flush leaves behind what there is room for, and gives what there is none for.
func (f *feed[T]) flush() (lost []T) {
	for v, ok := f.next(); ok; v, ok = f.next() {
		select {
		case f.out <- v:
		default:
			lost = append(lost, v)
		}
	}
	return lost
}
