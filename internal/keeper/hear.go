package keeper

import (
	"slices"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/reader"
)

// What a client makes of what its keeper says, and of its death.

// hear takes a report. What it gives is to be called without mu.
func (c *Client) hear(k *process, r report) (answer func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Say == sayCheck { // of one that is not taken yet, too: it says so once
		c.noteCheck(*r.Check)
		return nil
	}
	if r.Say == sayReader { // likewise
		c.reader = *r.Reader
		return nil
	}
	if c.keeper != k {
		return nil
	}
	if r.Say == sayLog { // it says nothing of the keeper
		log := c.cfg.Logger
		return func() { r.Log.write(log) }
	}
	c.keeps = r.Keeps
	switch r.Say {
	case sayCleaned:
		c.onCleaned(r.Outcome.result())
	case sayEnded:
		return c.onEnded(r.ID, r.Outcome.result())
	case sayRecovered:
		c.jobs.onRecovered(r.Err)
	case sayReply:
		c.onReply(*r.Reply)
	case sayResources:
		c.resources = r.Resources
		c.wakeAgent()
	case sayClients:
		c.clients, c.hasClients = r.Clients, true
		c.wakeAgent()
	case sayJob:
		c.jobs.onEnded(*r.Job)
	}
	return nil
}

// onEnded passes a result on; the caller holds mu. Those of leadership events come in the order of the events.
func (c *Client) onEnded(id uint64, res hooks.Result) (answer func()) {
	if res.IsLater || res.Unasked {
		c.isTaken = c.isTaken || res.Unasked
		pass(c.results, res)
		return nil
	}
	i := slices.IndexFunc(c.open, func(o order) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	ended := c.open[i].Event.Ended
	c.open = slices.Delete(c.open, i, i+1)
	if res.Kind == hooks.LoseLeadership && c.reign != nil && c.reign.Epoch.Counter <= res.Epoch {
		c.reign, c.isTaken = nil, false
	}
	if res.Kind.OfLeadership() {
		pass(c.results, res)
	}
	if ended == nil {
		return nil
	}
	return func() { ended(res) }
}

// abandon ends an event that nobody will run; the caller holds mu.
func (c *Client) abandon(o order, why error) {
	ev := o.Event
	if answer := c.onEnded(o.ID, hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Cause: ev.Cause, Exit: -1, Err: why}); answer != nil {
		go answer() // it may want what the caller holds
	}
}

// onCleaned answers whoever has asked for a clean-up; the caller holds mu.
func (c *Client) onCleaned(res hooks.Result) {
	if c.cleanUp != nil {
		c.cleanUp = nil
		c.cleaned <- res
	}
}

// notCleaned answers a clean-up that nobody will do.
func (c *Client) notCleaned(why error) {
	c.onCleaned(hooks.Result{Kind: hooks.LoseLeadership, Epoch: c.owed.Counter, Exit: -1, Err: why})
}

// lost is called when a keeper has ended. Unless that was its order, another one is
// started, for which lose-leadership hooks wait, and a clean-up; whatever else it ran has failed.
func (c *Client) lost(k *process, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper != k {
		return
	}
	c.keeper, c.resources = nil, nil
	if c.cfg.Reader != nil {
		c.reader = reader.State{Why: ErrDied.Error()}
	}
	c.clients, c.hasClients = nil, false
	c.forgetAsked()
	if c.phase == closing {
		c.notCleaned(ErrDied)
		for len(c.open) > 0 {
			c.abandon(c.open[0], ErrDied)
		}
		return
	}
	if c.cfg.Once {
		c.why = ErrDied
		c.notCleaned(ErrDied)
		c.cfg.Logger.Error("keeper lost, and with it the commands that it ran; this agent cannot start another", "err", why)
		close(c.gone)
		return
	}
	c.cfg.Logger.Error("keeper lost, and with it the commands that it ran; another is started", "err", why)
	if c.cleanUp != nil {
		c.waiting = append(c.waiting, *c.cleanUp)
	}
	c.jobs.onLost()
	leads := c.reign != nil
	for _, o := range slices.Clone(c.open) {
		if o.Event.Kind == hooks.LoseLeadership {
			leads = false
			c.waiting = append(c.waiting, o)
			continue
		}
		leads = leads && o.Event.Kind != hooks.BecomeLeader // else whoever leads hears of this
		c.abandon(o, ErrDied)
	}
	if leads {
		pass(c.results, hooks.Result{Kind: hooks.LoseLeadership, Epoch: c.reign.Epoch.Counter, Exit: -1, Err: ErrDied, Unasked: true})
	}
	go c.replace()
}
