package vip

import (
	"fmt"
	"net/netip"
	"strings"
)

// claimed counts what other hosts have said of the addresses that are kept. The zero value has counted nothing.
type claimed struct {
	times map[netip.Addr]int
}

// mostClaimed is how many addresses are named one by one: another host that has them all says so of each. Arbitrary.
const mostClaimed = 3

// count gives the line that a claim is worth in the log; empty: none.
func (c *claimed) count(addr netip.Addr) string {
	if c.times == nil {
		c.times = map[netip.Addr]int{}
	}
	c.times[addr]++
	switch {
	case c.times[addr] > 1 || len(c.times) > mostClaimed+1:
		return ""
	case len(c.times) > mostClaimed:
		return fmt.Sprintf("another host claims more addresses than these %d: their number is in the status", mostClaimed)
	}
	return fmt.Sprintf("another host claims %s", addr)
}

// of says it in one line, in the order of the addresses: a text that is the same is told once.
func (c *claimed) of(addresses []netip.Prefix) string {
	var text []string
	for _, p := range addresses {
		if n := c.times[p.Addr()]; n > 0 && len(text) < mostClaimed {
			text = append(text, fmt.Sprintf("another host has claimed %s %s", p.Addr(), count(n)))
		}
	}
	if more := len(c.times) - len(text); more > 0 {
		text = append(text, fmt.Sprintf("and %d more addresses", more))
	}
	return strings.Join(text, "; ")
}

func count(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
