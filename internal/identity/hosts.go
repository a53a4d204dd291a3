package identity

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2s"

	"github.com/bully-agent/bully-agent/wire"
)

// Hosts is a host list: the ids of those that may join, each under the name that people here know it by. The zero Hosts is
// no list: then each host that has the cluster's key may join. A Hosts is never changed.
//
// Invariant: list is sorted by id, and has each id and each name once.
type Hosts struct {
	list []Host
	at   string // where it stands, for messages
}

// Host is one line of a list.
type Host struct {
	Name string
	ID   wire.ID
}

// MaxHosts bounds a list. Arbitrary; four times what a cluster of one LAN was tried with.
const MaxHosts = 4096

// ErrTwice is wrapped by the error about an id that a list has under two names.
var ErrTwice = errors.New("one id under two names")

// ParseHost reads the id of a list's line: that of a key, so of version 8.
func ParseHost(text string) (wire.ID, error) {
	id, err := wire.ParseID(text)
	if err == nil && (id[6]>>4 != 8 || id[8]>>6 != 2) {
		err = errors.New("id is of no key of a host: expected a UUID of version 8")
	}
	return id, err
}

// MakeHosts makes a list of its lines, in any order. None make no list.
func MakeHosts(all []Host) (Hosts, error) {
	if len(all) > MaxHosts {
		return Hosts{}, fmt.Errorf("%d hosts: expected at most %d", len(all), MaxHosts)
	}
	list := slices.Clone(all)
	slices.SortFunc(list, func(a, b Host) int {
		if c := a.ID.Compare(b.ID); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i := range list[:max(len(list)-1, 0)] {
		if a, b := list[i], list[i+1]; a.ID == b.ID {
			return Hosts{}, fmt.Errorf("%w: %s and %s both have %s", ErrTwice, a.Name, b.Name, a.ID)
		}
	}
	return Hosts{list: list}, nil
}

// At is the list with the place where it was written, such as a file and a line.
func (h Hosts) At(place string) Hosts {
	h.at = place
	return h
}

// String is what messages call the list: the place where it was written.
func (h Hosts) String() string { return cmp.Or(h.at, "hosts") }

// IsNone reports whether there is no list.
func (h Hosts) IsNone() bool { return len(h.list) == 0 }

// Admits reports whether a host with that id may join.
func (h Hosts) Admits(id wire.ID) bool { return h.IsNone() || h.Has(id) }

// Has reports whether the list has the id.
func (h Hosts) Has(id wire.ID) bool { _, found := h.find(id); return found }

// Name is what the list calls the host with that id; empty if it has none.
func (h Hosts) Name(id wire.ID) string {
	if i, found := h.find(id); found {
		return h.list[i].Name
	}
	return ""
}

func (h Hosts) find(id wire.ID) (at int, found bool) {
	return slices.BinarySearchFunc(h.list, id, func(l Host, id wire.ID) int { return l.ID.Compare(id) })
}

// All are the lines, sorted by name.
func (h Hosts) All() []Host {
	all := slices.Clone(h.list)
	slices.SortFunc(all, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// IDs are the ids, in their order; nil: there is no list.
func (h Hosts) IDs() []wire.ID {
	var ids []wire.ID
	for _, l := range h.list {
		ids = append(ids, l.ID)
	}
	return ids
}

// Equal reports whether the lists have the same ids under the same names.
func (h Hosts) Equal(other Hosts) bool { return slices.Equal(h.list, other.list) }

// Digest stands for the ids of a list, in their order: two hosts with one digest let the same hosts in. Names are each
// host's own business. Zero: there is no list.
type Digest uint64

// hostsLabel keeps the hash of a list apart from all other uses of BLAKE2s.
const hostsLabel = "bully-agent hosts 1"

// Digest is the first eight bytes, as a number, of BLAKE2s-256 over the label and the ids.
func (h Hosts) Digest() Digest {
	if h.IsNone() {
		return 0
	}
	b := []byte(hostsLabel)
	for _, l := range h.list {
		b = append(b, l.ID[:]...)
	}
	sum := blake2s.Sum256(b)
	return max(Digest(binary.BigEndian.Uint64(sum[:8])), 1)
}

// String is what people compare: 16 digits, or "none".
func (d Digest) String() string {
	if d == 0 {
		return "none"
	}
	return fmt.Sprintf("%016x", uint64(d))
}

// maxSlips is how many digits of an id may differ from another's that was meant. Two ids of chance differ in some 28.
const maxSlips = 4

// Nearest is the line whose id is like this one but for a slip or two of a digit, and for which that may have been meant.
// The list does not have the id itself.
func (h Hosts) Nearest(id wire.ID) (near Host, found bool) {
	least := maxSlips + 1
	for _, l := range h.list {
		if n := slips(l.ID, id); n < least && n > 0 {
			near, least = l, n
		}
	}
	return near, least <= maxSlips
}

// slips counts the hexadecimal digits in which two ids differ.
func slips(a, b wire.ID) (n int) {
	for i := range a {
		d := a[i] ^ b[i]
		if d>>4 != 0 {
			n++
		}
		if d&0x0f != 0 {
			n++
		}
	}
	return n
}
