package hooks

import (
	"slices"
	"time"
)

// holdings is what the leadership that goes on has, in the order of its beginning. The zero value has nothing.
type holdings struct {
	all      []had
	by       Event // its become-leader
	isFrozen bool  // nothing of it is put back any more
}

// had is a resource of the leadership that goes on.
type had struct {
	Resource
	has   bool
	again time.Time // when it is begun once more; zero: it is not
	rest  Patience

	isParting bool // it is to end, or could not be ended, though its leadership goes on
}

// longestPause is between two tries to begin what has failed and does not hand over. Arbitrary.
const longestPause = time.Minute

// take has a leadership have these; what it has already it goes on having. The first pause is for what fails.
func (h *holdings) take(become Event, resources []Resource, pause time.Duration) {
	before := h.all
	if h.by.Epoch != become.Epoch {
		h.by, h.isFrozen, before = become, false, nil
	}
	h.all = make([]had, len(resources))
	for i, r := range resources {
		h.all[i] = had{Resource: r, rest: Patience{First: pause, Most: longestPause}}
		if j := slices.IndexFunc(before, func(h had) bool { return isSame(h.Resource, r) }); j >= 0 {
			h.all[i] = before[j]
		}
	}
}

// part marks what is to end while its leadership goes on: it is not begun again.
func (h *holdings) part(wanted []Resource) {
	for i := range h.all {
		r := &h.all[i]
		if r.isParting = !isIn(wanted, r.Resource); r.isParting {
			r.again = time.Time{}
		}
	}
}

// find gives the one of that name; nil: there is none.
func (h *holdings) find(name string) *had {
	if i := slices.IndexFunc(h.all, func(r had) bool { return r.Name == name }); i >= 0 {
		return &h.all[i]
	}
	return nil
}

// begin asks for one of them.
func (h *holdings) begin(r Resource) BeginResource {
	return BeginResource{Resource: r, Event: h.by, Within: r.Timeout}
}

// later says when one that has failed is begun once more: after a pause, which grows.
func (r *had) later(now time.Time) (pause time.Duration) {
	pause = r.rest.Failed(now)
	r.again = now.Add(pause)
	return pause
}

// due gives those that it is time to begin once more, each once.
func (h *holdings) due(now time.Time) (all []Resource) {
	for i := range h.all {
		r := &h.all[i]
		if !r.again.IsZero() && !now.Before(r.again) {
			r.again = time.Time{}
			all = append(all, r.Resource)
		}
	}
	return all
}

// dueAt is when that is; the zero time: never.
func (h *holdings) dueAt() (at time.Time) {
	for _, r := range h.all {
		at = earlier(at, r.again)
	}
	return at
}

// isKept: a leadership has something, or is to have it, and it is not to end with it yet.
func (h *holdings) isKept() bool { return len(h.all) > 0 && !h.isFrozen }

// freeze has nothing begun again of what is to end with an epoch. It reports whether that was news.
func (h *holdings) freeze(epoch uint64) bool {
	if len(h.all) == 0 || h.isFrozen || epoch < h.by.Epoch.Counter {
		return false
	}
	h.isFrozen = true
	for i := range h.all {
		h.all[i].again = time.Time{}
	}
	return true
}
