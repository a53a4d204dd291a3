package agent

import (
	"maps"
	"sync"
)

// counters counts by name, from any goroutine. The names come from our own
// code, so there are few.
type counters struct {
	mu    sync.Mutex
	count map[string]uint64
}

func (c *counters) add(name string) { c.addMany(name, 1) }

func (c *counters) addMany(name string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = make(map[string]uint64)
	}
	c.count[name] += n
}

func (c *counters) snapshot() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := maps.Clone(c.count)
	if out == nil {
		out = make(map[string]uint64)
	}
	return out
}
