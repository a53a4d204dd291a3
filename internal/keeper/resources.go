package keeper

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
)

// The keeper's part in resources: it has what the leader has (package resourcerun), as Lanes decide,
// and tells the agent how that is.

// openResources makes the Hands of resources, once nothing runs that an earlier keeper has kept running: a worker's.
// A silent agent's commands get TERM when those of jobs do.
func (k *keeper) openResources(s Settings) *resourcerun.Hands {
	log := k.out.named("resources")
	h := resourcerun.New(k.ctx, resourcerun.Config{Dir: s.Dir, Socket: s.Socket, Budget: 2 * s.Budget, Bound: s.LeaseBound, Logger: log,
		Post: func(ev hooks.LaneEvent) { k.post(func() { k.onResource(ev) }) }})
	if err := h.Recover(k.ctx); err != nil {
		log.Error("an earlier run's commands may still run", "err", err)
	}
	return h
}

// onResource takes what has come of an effect. The agent is told how resources are before it hears what that leads to.
func (k *keeper) onResource(ev hooks.LaneEvent) {
	k.shown.next = time.Time{}
	k.showResources()
	k.step(ev)
}

// shownResources is what the agent was told of resources.
type shownResources struct {
	states []resourcerun.State
	next   time.Time // of the next look; zero: there is nothing to look at
}

// showEvery is between two looks at how resources are, for people, and at who their clients are, for the next leader.
const showEvery = time.Second

// showResources tells the agent how resources are, when that has changed.
func (k *keeper) showResources() {
	if k.resources == nil || k.now.Before(k.shown.next) {
		return
	}
	states := k.resources.States()
	k.shown.next = time.Time{}
	if len(states) > 0 {
		k.shown.next = k.now.Add(showEvery)
	}
	if !slices.Equal(states, k.shown.states) {
		k.shown.states = states
		k.say(report{Say: sayResources, Resources: states})
	}
}

// tellingClients is how the agent is told who is connected to the addresses of this host.
type tellingClients struct {
	isOn bool      // the kernel is being asked
	next time.Time // when it is asked again; zero: nobody is to know
}

// showClients tells the agent so, every showEvery. A worker asks the kernel, which may have many connections.
func (k *keeper) showClients() {
	t := &k.clients
	if k.resources == nil || k.isDead || t.isOn || k.now.Before(t.next) {
		return
	}
	if t.next = (time.Time{}); !k.resources.HasClients() {
		return
	}
	t.isOn = true
	resources := k.resources
	go func() {
		clients := resources.Clients()
		k.post(func() {
			t.isOn, t.next = false, k.now.Add(showEvery)
			k.say(report{Say: sayClients, Clients: clients})
		})
	}()
}

// Clients gives who is connected to the addresses of this host, once for each time that the keeper says so; false: it has not since.
func (c *Client) Clients() (clients []resourcerun.Client, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clients, isNew = c.clients, c.hasClients
	c.clients, c.hasClients = nil, false
	return clients, isNew
}

// Reset says who was connected to the addresses of the leader before. It is for the time right before the become-leader event.
func (c *Client) Reset(clients []resourcerun.Client) { c.order(order{Do: toReset, Clients: clients}) }

// Resources is what this host has, or is about to have, as the keeper said last.
func (c *Client) Resources() []resourcerun.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resources
}
