package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Epoch is a fencing token as hooks get it: BULLY_EPOCH and BULLY_EPOCH_OWNER.
// Counter is at least 1. Owner may be empty, which is an owner like any other:
// nobody can tell whether it is the same one as a named owner.
type Epoch struct {
	Counter uint64
	Owner   string
}

const maxOwner = 63 // bytes; that of a member's name, an id has 36

// ParseEpoch reads COUNTER or COUNTER/OWNER, in decimal.
func ParseEpoch(text string) (Epoch, error) {
	counter, owner, named := strings.Cut(text, "/")
	e := Epoch{Owner: owner}
	var err error
	if e.Counter, err = parseCounter(counter); err != nil {
		return Epoch{}, err
	}
	if named && owner == "" {
		return Epoch{}, errors.New("the owner after / is missing")
	}
	return e, e.validate()
}

func parseCounter(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("the counter is above 2^64-1")
	case err != nil || strconv.FormatUint(n, 10) != text:
		return 0, errors.New("the counter is not a decimal number")
	}
	return n, nil
}

func (e Epoch) validate() error {
	switch {
	case e.Counter == 0:
		return errors.New("epoch 0 is no leadership")
	case len(e.Owner) > maxOwner:
		return fmt.Errorf("the owner has more than %d bytes", maxOwner)
	case e.Owner == noOwner:
		return errors.New("the owner - is none: leave /- out")
	case strings.ContainsFunc(e.Owner, notInName):
		return errors.New("the owner may hold only letters, digits, '.', '_' and '-'")
	}
	return nil
}

func notInName(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', r == '.', r == '_', r == '-':
		return false
	}
	return true
}

func (e Epoch) String() string {
	if e.Owner == "" {
		return strconv.FormatUint(e.Counter, 10)
	}
	return strconv.FormatUint(e.Counter, 10) + "/" + e.Owner
}

// follows reports whether e may act where highest has acted. Equal counters of
// two owners occur in available mode, in the parts of a torn network.
func (e Epoch) follows(highest Epoch) bool {
	return e.Counter > highest.Counter || e == highest
}
