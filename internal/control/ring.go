package control

import "sync"

// RingSize is how many events a Ring keeps: hours of a quiet cluster, minutes
// of a flapping one, some 300 KiB at worst. The number is arbitrary.
const RingSize = 1000

// Ring holds the newest RingSize events and wakes those who wait for the next.
// The zero Ring is empty and ready. All methods are safe from any goroutine,
// and none waits for a reader: a slow one finds a gap in Seq instead.
type Ring struct {
	mu sync.Mutex
	// Invariant: event s is at slot (s-1) % RingSize, for the newest len(events).
	events []Event
	last   uint64        // Seq of the newest; 0 before the first
	newer  chan struct{} // closed by the next Append; nil while nobody waits
}

// Append numbers e, keeps it in place of the oldest, and returns it as kept.
func (r *Ring) Append(e Event) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	if len(r.events) < RingSize {
		r.events = append(r.events, e)
	} else {
		r.events[(e.Seq-1)%RingSize] = e
	}
	if r.newer != nil {
		close(r.newer)
		r.newer = nil
	}
	return e
}

// Events returns a copy of the kept events with a Seq above since, oldest
// first, and a channel that is closed when there is a newer one.
func (r *Ring) Events(since uint64) ([]Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newer == nil {
		r.newer = make(chan struct{})
	}
	since = max(since, r.last-uint64(len(r.events)))
	if since >= r.last {
		return nil, r.newer
	}
	events := make([]Event, 0, r.last-since)
	for seq := since; seq < r.last; seq++ {
		events = append(events, r.events[seq%RingSize])
	}
	return events, r.newer
}
