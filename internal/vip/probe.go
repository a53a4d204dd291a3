package vip

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// probeTimes questions are asked, so that one may be lost, in probeTime altogether, the wait for the last answer
	// included. RFC 5227 and RFC 4862 take their time, seconds, since a host does so once in its life; answers on a LAN
	// take a millisecond. Between the questions and the answers of a host that is busy, arbitrary.
	probeTimes = 3
	probeTime  = 250 * time.Millisecond
)

// probe asks the neighbours for the addresses, and refuses what somebody else answers for. Silence is no proof: a host that
// is cut off, or frozen, does not answer.
func (w *wire) probe(own hardware, addresses []netip.Prefix) error {
	begun := time.Now()
	for n := range probeTimes {
		for _, p := range addresses {
			question := arpProbe
			if p.Addr().Is6() {
				question = ndpProbe
			}
			if err := w.send(question(own, p.Addr())); err != nil {
				return complain(Host, "", "ask for %s: %v", p.Addr(), err)
			}
		}
		until := begun.Add(probeTime * time.Duration(n+1) / probeTimes)
		for {
			c, ok, err := w.receive(until)
			if err != nil {
				return complain(Host, "", "ask for %s: %v", addresses[0].Addr(), err)
			}
			if !ok {
				break
			}
			isAsked := slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Addr() == c.addr })
			if isAsked && c.by != own {
				return complain(Refused, "have it removed there, or choose another address", "%s is somebody else's: %s answers for it", c.addr, c.by)
			}
		}
	}
	return nil
}
