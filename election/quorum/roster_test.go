package quorum

import (
	"math"
	"slices"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// voters gives ids of these numbers, sorted.
func voters(numbers ...byte) []wire.ID {
	var out []wire.ID
	for _, number := range numbers {
		out = append(out, wire.ID{number})
	}
	slices.SortFunc(out, wire.ID.Compare)
	return out
}

func id(number byte) wire.ID { return wire.ID{number} }

// formed is a roster that holds, proposed one that does not yet.
func formed(version uint32, numbers ...byte) Roster {
	return Roster{Version: version, Formed: true, IDs: voters(numbers...)}
}

func proposed(numbers ...byte) Roster { return Roster{Version: 1, IDs: voters(numbers...)} }

func TestARosterIsSaneIfItsVotersAreManyAndInOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		ids  []wire.ID
		want bool
	}{
		{"in order", []wire.ID{{1}, {2}, {3}}, true},
		{"two", []wire.ID{{1}, {2}}, true},
		{"one", []wire.ID{{1}}, false},
		{"none", nil, false},
		{"one twice", []wire.ID{{1}, {1}, {2}}, false},
		{"not in order", []wire.ID{{2}, {1}}, false},
		{"with nobody", []wire.ID{{}, {1}}, false},
	} {
		if got := (Roster{Version: 1, IDs: c.ids}).IsSane(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// With and Without leave the roster as it is: others hold it.
func TestARosterIsNeverChangedInPlace(t *testing.T) {
	r := formed(16, 1, 3, 5)
	if got := r.With(id(4)); !slices.Equal(got, voters(1, 3, 4, 5)) {
		t.Errorf("with 4: %v", got)
	}
	if got := r.With(id(3)); !slices.Equal(got, voters(1, 3, 5)) {
		t.Errorf("with one of its own: %v", got)
	}
	if got := r.Without(id(1)); !slices.Equal(got, voters(3, 5)) {
		t.Errorf("without 1: %v", got)
	}
	if !slices.Equal(r.IDs, voters(1, 3, 5)) {
		t.Errorf("it has become %v", r.IDs)
	}
}

// A voter accepts the proposal of those whom it sees, and in all its life no other.
func TestAProposalIsJudged(t *testing.T) {
	none, accepted, holds := Roster{}, proposed(1, 2, 3), formed(1, 1, 2, 3)
	for _, c := range []struct {
		name           string
		mine, proposal Roster
		present        []wire.ID
		want           wire.AckVerdict
	}{
		{"those that are here", none, proposed(1, 2, 3), voters(1, 2, 3), wire.Accept},
		{"others are here", none, proposed(1, 2, 3), voters(1, 2, 4), wire.AckHold},
		{"more are here", none, proposed(1, 2, 3), voters(1, 2, 3, 4), wire.AckHold},
		{"too few", none, proposed(1, 2), voters(1, 2), wire.AckHold},
		{"no first roster", none, formed(2, 1, 2, 3), voters(1, 2, 3), wire.AckHold},
		{"once more", accepted, proposed(1, 2, 3), voters(1, 2), wire.Accept},
		{"another one", accepted, proposed(1, 2, 4), voters(1, 2, 4), wire.NotVoter},
		{"what has formed", holds, proposed(1, 2, 3), nil, wire.Accept},
		{"another than what has formed", holds, proposed(1, 2, 4), voters(1, 2, 4), wire.NotVoter},
	} {
		if got := c.mine.Judge(c.proposal, 3, c.present); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWhoseRosterIsTaken(t *testing.T) {
	for _, c := range []struct {
		name                  string
		mine, theirs          Roster
		fromLeader, fromVoter bool
	}{
		{"newer", formed(16, 1, 2, 3), formed(17, 1, 2, 4), true, true},
		{"the same", formed(16, 1, 2, 3), formed(16, 1, 2, 3), false, false},
		{"older", formed(17, 1, 2, 3), formed(16, 1, 2, 3), false, false},
		{"newer, of strangers", formed(16, 1, 2, 3), formed(17, 4, 5, 6), false, false},
		{"in place of what never formed", proposed(1, 2, 3), formed(1, 1, 2, 4), true, false},
		{"newer than what never formed", proposed(1, 2, 3), formed(17, 1, 2, 4), true, false},
		{"the first that it is in", Roster{}, formed(16, 1, 2, 3), true, false},
		{"one that it is not in", Roster{}, formed(16, 2, 3, 4), false, false},
	} {
		if got := c.mine.TakesFromLeader(c.theirs, id(1)); got != c.fromLeader {
			t.Errorf("%s: from a leader %t", c.name, got)
		}
		if got := c.mine.TakesFromVoter(c.theirs); got != c.fromVoter {
			t.Errorf("%s: from a voter %t", c.name, got)
		}
	}
}

func TestWhoMayElectWhom(t *testing.T) {
	for _, c := range []struct {
		name     string
		mine     Roster
		claimant byte
		version  uint32
		want     bool
	}{
		{"one of the roster", formed(16, 1, 2, 3), 2, 16, true},
		{"a stranger", formed(16, 1, 2, 3), 4, 16, false},
		{"by one that was left out", formed(16, 2, 3, 4), 2, 16, false},
		{"with an older roster", formed(16, 1, 2, 3), 2, 1, false},
		{"with a newer one", formed(16, 1, 2, 3), 4, 17, true},
		{"by one without a roster", Roster{}, 2, 16, true},
		{"by one that did not accept the first", Roster{}, 2, 1, false},
		{"without any roster", Roster{}, 2, 0, false},
	} {
		if got := c.mine.MayElect(id(1), id(c.claimant), c.version); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestWhoIsBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		mine Roster
		want bool
	}{
		{"older", formed(16, 1, 2), true},
		{"the same", formed(17, 1, 2), false},
		{"newer", formed(18, 1, 2), false},
		{"never formed", Roster{Version: 17, IDs: voters(1, 2)}, true},
		{"none", Roster{}, false}, // that is another flag
	} {
		if got := c.mine.IsBehind(17); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Each epoch's leader has sixteen versions, the first of them for the confirmation;
// no two leaders share one.
func TestVersionsOfAnEpoch(t *testing.T) {
	r := formed(1, 1, 2, 3)
	if first := FirstVersion(2); first != 32 {
		t.Errorf("epoch 2 confirms as %d", first)
	}
	for want := uint32(33); want < 48; want++ {
		if r.Version = r.NextVersion(2); r.Version != want {
			t.Fatalf("the next is %d, want %d", r.Version, want)
		}
	}
	if got := r.NextVersion(2); got != 0 {
		t.Errorf("after the last of the epoch comes %d", got)
	}
	if got := r.NextVersion(3); got != 49 {
		t.Errorf("the next epoch's first change is %d", got)
	}
	r.Version = 1
	if got := r.NextVersion(LastChangeable); got != math.MaxUint32-14 {
		t.Errorf("the last epoch's first change is %d", got)
	}
	if got := r.NextVersion(LastChangeable + 1); got != 0 {
		t.Errorf("an epoch whose versions do not fit makes %d", got)
	}
}
