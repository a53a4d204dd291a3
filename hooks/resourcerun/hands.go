package resourcerun

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/sidecar"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// Config says where Hands work.
type Config struct {
	Dir    string // the state directory
	Socket string // the agent's, for BULLY_SOCKET
	// Budget is how long before the lease's end a silent agent is taken for dead; see holder.Config.
	Budget time.Duration
	// Bound is for how long the kernel keeps an address that nobody keeps any more.
	Bound  time.Duration
	Logger hclog.Logger // nil discards
	// Post is given what has come of an effect. Any goroutine calls it; it must not wait.
	Post func(hooks.LaneEvent)
}

// Hands carry out the effects about resources. Begin, Freeze, Announce, End and Lease wait for nothing; all methods
// may be called by any goroutine.
type Hands struct {
	cfg Config
	ctx context.Context // of all that begins

	mu      sync.Mutex
	tenants []*tenant // one for each resource; of one name there may be two while one is to end that has changed

	clients []Client // of the leader before, as SetClients was told; whoever is asked is taken out

	lease atomic.Pointer[time.Time] // on CLOCK_BOOTTIME; zero: it does not end by itself
}

// New makes Hands. ctx ends what is being begun.
func New(ctx context.Context, cfg Config) *Hands {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Hands{cfg: cfg, ctx: ctx}
}

// Begin carries out an effect: hooks.ResourceBegun is posted, once for all that ask meanwhile, and perhaps hooks.ResourceFailed later.
func (h *Hands) Begin(e hooks.BeginResource) {
	name := e.Resource.Name
	t, err := h.tenant(e.Resource, e.Event)
	if err != nil {
		h.cfg.Post(hooks.ResourceBegun{Name: name, Err: err})
		return
	}
	b := t.ask(h.ctx)
	if b == nil {
		return
	}
	go func() {
		defer close(b.told)
		isNew, err := t.begin(b, e.Within, func(err error) { h.cfg.Post(hooks.ResourceFailed{Name: name, Err: err}) })
		if isNew {
			h.cfg.Logger.Info("resource begun", "resource", name, "what", e.Resource.String())
			h.tickle(t)
		}
		h.cfg.Post(hooks.ResourceBegun{Name: name, Err: err})
	}()
}

// Freeze carries out an effect. It has been carried out when it returns.
func (h *Hands) Freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients = nil
	for _, t := range h.tenants {
		t.freeze()
	}
}

// End carries out an effect: hooks.ResourceEnded is posted, once for all that ask meanwhile.
func (h *Hands) End(e hooks.EndResource) {
	name := e.Resource.Name
	t, err := h.tenant(e.Resource, hooks.Event{})
	if err != nil {
		h.cfg.Post(hooks.ResourceEnded{Name: name, Err: err})
		return
	}
	go func() {
		err, isFirst := t.end(e.Within)
		if !isFirst {
			return
		}
		t.settle()
		if err == nil {
			h.forget(t)
		}
		h.cfg.Post(hooks.ResourceEnded{Name: name, Err: err})
	}()
}

// Announce carries out an effect: neighbours are told once more what addresses are here. Some may have learnt another host.
func (h *Hands) Announce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tenants {
		if k, ok := t.thing.(*vip.Kept); ok {
			k.Again()
		}
	}
}

// Lease moves the time at which what is tied to the leadership must be dead; zero: no bound.
func (h *Hands) Lease(until time.Time) {
	wasLate := !h.holds()
	h.lease.Store(&until)
	if wasLate { // this process was frozen, and not its agent
		h.Announce()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tenants {
		if c, ok := t.thing.(*command); ok {
			c.renew(until)
		}
	}
}

// holds reports whether the lease has not ended.
func (h *Hands) holds() bool {
	until := h.leaseNow()
	return until.IsZero() || sidecar.Now().Before(until)
}

// leaseNow is the lease as renewed last.
func (h *Hands) leaseNow() time.Time {
	if until := h.lease.Load(); until != nil {
		return *until
	}
	return time.Time{}
}

// State is how one resource is.
type State struct {
	Name, What string
	Has        bool   // this host has it
	Text       string // more of it, for people; empty: nothing
	Why        string // "has failed: deleted"; empty: its last beginning or end went well, or is not over
}

// States lists what this host has, or is about to have, by name.
func (h *Hands) States() (all []State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range slices.SortedFunc(slices.Values(h.tenants), func(a, b *tenant) int { return strings.Compare(a.Name, b.Name) }) {
		t.mu.Lock()
		has, why := t.isKept, t.why
		t.mu.Unlock()
		all = append(all, State{Name: t.Name, What: t.String(), Has: has, Text: t.State(), Why: why})
	}
	return all
}

// tenant gives that of a resource. One that has changed is another resource.
func (h *Hands) tenant(r hooks.Resource, ev hooks.Event) (*tenant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.tenants, func(t *tenant) bool { return reflect.DeepEqual(t.Resource, r) }); i >= 0 {
		return h.tenants[i], nil
	}
	thing, err := h.newThing(r, ev)
	if err != nil {
		return nil, err
	}
	t := &tenant{Resource: r, thing: thing, turn: make(chan struct{}, 1)}
	h.tenants = append(h.tenants, t)
	return t, nil
}

// forget is for one that has ended.
func (h *Hands) forget(t *tenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenants = slices.DeleteFunc(h.tenants, func(other *tenant) bool { return other == t })
}
