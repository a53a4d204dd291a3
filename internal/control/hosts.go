package control

import "fmt"

// HostList is who may join, and whom the lists of hosts leave out.
type HostList struct {
	Digest    string    `json:"digest"`      // of its ids, 16 digits: hosts with one digest let the same hosts in; "none": there is no list
	Listed    int       `json:"listed"`      // how many it has; 0: each host that has the key may join
	LeftOut   []LeftOut `json:"left_out"`    // hosts that have the key, were here lately and are not in it; 16 at most
	LeftOutBy []LeftOut `json:"left_out_by"` // hosts whose lists do not have this one; 16 at most
}

// LeftOut is a host that a list does not have, or whose list does not have this one.
type LeftOut struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"` // by this host's list, else a part of the id
	Addr    string `json:"addr"`
	Digest  string `json:"digest,omitempty"`  // of the list that leaves this host out
	Nearest string `json:"nearest,omitempty"` // the name of the line that may have been meant for it
}

// String is one line about a host that is left out here.
func (o LeftOut) String() string {
	text := fmt.Sprintf("a host at %s has the key, and hosts does not name it: %s", o.Addr, o.ID)
	if o.Nearest != "" {
		text += fmt.Sprintf(" (%s is nearly that)", o.Nearest)
	}
	return text
}
