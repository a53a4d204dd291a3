package key

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A key is replaced in three steps, each of which is carried to all hosts before the next:
//
//	[old]  1→  [old, new]  2→  [new, old]  3→  [new]
//
// Neighbours share keys: whoever begins with one is heard by all who are one step away, so
// it does not matter in which order the hosts take a step. Two steps at once would lock out
// who has taken none. Each Host says what it has, and Unready who must go first.

// Step is one of the three.
type Step int

// The steps, by what they do.
const (
	Add     Step = iota + 1 // a new key, that all come to accept
	Promote                 // the new key begins
	Remove                  // the old one
)

// Steps is how many there are.
const Steps = 3

// errManyKeys is returned where there is no next step, since more than two keys are there.
var errManyKeys = errors.New("more than two keys: expected one, or two while a key is replaced")

// Generate makes a key that is newer than all of the ring.
func Generate(now time.Time, ring Ring) Key {
	for {
		var k Key
		_, _ = rand.Read(k.Secret[:]) // never fails (crypto/rand)
		k.ID = IDOf(k.Secret)
		k.Made = now.UTC().Truncate(24 * time.Hour)
		for _, old := range ring {
			if old.Made.After(k.Made) {
				k.Made = old.Made // a clock was set back
			}
		}
		if isNewest(k, ring) {
			return k
		}
	}
}

func isNewest(k Key, ring Ring) bool {
	return !slices.ContainsFunc(ring, func(old Key) bool { return old.ID == k.ID || !k.newer(old) })
}

// newer tells the two keys of a rotation apart: by the day, and on one day by the id, whose
// order is that of numbers on a circle, so that half of all ids follow any one. Generate
// takes one that does.
func (k Key) newer(old Key) bool {
	if !k.Made.Equal(old.Made) {
		return k.Made.After(old.Made)
	}
	return int32(k.ID-old.ID) > 0
}

// Next gives the ring after the next step.
func (r Ring) Next(now time.Time) (Step, Ring, error) {
	switch {
	case len(r) == 1:
		return Add, Ring{r[0], Generate(now, r)}, nil
	case len(r) == 2 && r[1].newer(r[0]):
		return Promote, Ring{r[1], r[0]}, nil
	case len(r) == 2:
		return Remove, r[:1:1], nil
	}
	return 0, nil, errManyKeys
}

// Without gives the ring without a key. If that was the only one, a new one takes its place.
func (r Ring) Without(id ID, now time.Time) Ring {
	left := slices.DeleteFunc(slices.Clone(r), func(k Key) bool { return k.ID == id })
	if len(left) == 0 {
		left = Ring{Generate(now, r)}
	}
	return left
}

// Equal reports whether both have the same keys in the same order.
func (r Ring) Equal(other Ring) bool { return slices.Equal(r, other) }

// Host is what is known of another host's keys.
type Host struct {
	Name string
	IDs  []ID // in their order; the first begins. None: nothing is known
	Uses []ID // of the sessions with it, which live for a while after their key has lost its place
}

// Unready is a host that must do something before the next step.
type Unready struct {
	Name string
	Why  string // a clause
	Soon bool   // it becomes ready of itself
}

// Unready names the hosts that are not ready for the next step of this ring. With all hosts
// in the state before or after the last step, none is.
func (r Ring) Unready(step Step, hosts []Host) (missing []Unready) {
	for _, h := range hosts {
		if why := r.why(step, h); why != "" {
			isSoon := step == Remove && h.IDs != nil && h.IDs[0] == r[0].ID
			missing = append(missing, Unready{Name: h.Name, Why: why, Soon: isSoon})
		}
	}
	return missing
}

func (r Ring) why(step Step, h Host) string {
	has := "it has " + words(h.IDs)
	switch old := r[len(r)-1].ID; {
	case len(h.IDs) == 0 && step == Add:
		return "" // which shuts nobody out
	case len(h.IDs) == 0:
		return "it was not heard, so nobody knows its keys"
	case step == Add && !slices.Equal(h.IDs, r.IDs()):
		return has + ", and this host " + words(r.IDs())
	case step == Promote && !slices.Contains(h.IDs, r[1].ID):
		return has + ", and lacks " + r[1].ID.String()
	case step == Remove && h.IDs[0] != r[0].ID:
		return has + ", and still begins with " + h.IDs[0].String()
	case step == Remove && slices.Contains(h.Uses, old):
		return fmt.Sprintf("a session under %s lives, for a minute at most", old)
	}
	return ""
}

// words is a list of ids for people.
func words(ids []ID) string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = id.String()
	}
	return strings.Join(text, ", ")
}
