package resourcerun

import (
	"net/netip"
	"slices"

	"github.com/bully-agent/bully-agent/internal/vip"
)

// Client is a connection to an address that the leader has.
type Client = vip.Client

// MaxClients bounds a list of them.
const MaxClients = vip.MaxClients

// SetClients says what connections the leader before had to its addresses. It is for the time right before resources begin, and for
// those alone that begin in this leadership.
func (h *Hands) SetClients(clients []Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients = slices.Clone(clients[:min(len(clients), MaxClients)])
}

// tickle resets what the leader before had to the addresses of a resource that has begun, once.
func (h *Hands) tickle(t *tenant) {
	k, ok := t.thing.(*vip.Kept)
	if !ok || !t.Reset {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var its, others []Client
	for _, c := range h.clients {
		if slices.ContainsFunc(t.Addresses, func(p netip.Prefix) bool { return p.Addr() == c.Here.Addr() }) {
			its = append(its, c)
		} else {
			others = append(others, c)
		}
	}
	if h.clients = others; len(its) > 0 {
		h.cfg.Logger.Info("clients of the leader before are reset", "resource", t.Name, "clients", len(its))
		go k.Tickle(its)
	}
}

// HasClients reports whether this host has addresses whose next one is to know their clients.
func (h *Hands) HasClients() bool { return len(h.told()) > 0 }

// Clients lists these. It waits for the kernel.
func (h *Hands) Clients() []Client {
	addresses := h.told()
	if len(addresses) == 0 {
		return nil
	}
	return vip.Clients(addresses)
}

// told are the addresses whose clients others are told of.
func (h *Hands) told() (addresses []netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tenants {
		if t.Reset && t.has() {
			addresses = append(addresses, t.Addresses...)
		}
	}
	return addresses
}
