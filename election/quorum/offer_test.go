package quorum

import (
	"slices"
	"testing"
)

// A first roster needs the word of all its voters; the proposer's own comes last.
func TestAProposalNeedsAll(t *testing.T) {
	p := Propose(proposed(1, 2, 3))
	for _, who := range []byte{2, 2, 4} {
		if p.Ack(id(who)); p.IsAccepted(id(1)) {
			t.Fatalf("accepted without 3, after %d", who)
		}
	}
	if p.Ack(id(3)); !p.IsAccepted(id(1)) {
		t.Error("not accepted by all")
	}
	if p.IsAccepted(id(4)) {
		t.Error("a proposer that is not in it need not accept")
	}
}

// A change needs a majority of the voters before and of those after it, however
// often one of them says so.
func TestAChangeNeedsBothMajorities(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to []byte
		acks     []byte // besides the leader's, which is 1
		want     bool
	}{
		{"one leaves, nobody says so", []byte{1, 2, 3}, []byte{1, 2}, nil, false},
		{"one leaves, who is left says so", []byte{1, 2, 3}, []byte{1, 2}, []byte{2}, true},
		{"one leaves, only it says so", []byte{1, 2, 3}, []byte{1, 2}, []byte{3}, false},
		{"one comes, only it says so", []byte{1, 2}, []byte{1, 2, 3}, []byte{3}, false},
		{"one comes, another says so", []byte{1, 2}, []byte{1, 2, 3}, []byte{2}, true},
		{"one says so twice", []byte{1, 2, 3, 4}, []byte{1, 2, 3, 4, 5}, []byte{2, 2}, false},
		{"enough after, too few before", []byte{1, 2, 3, 4}, []byte{1, 2, 3, 4, 5}, []byte{2, 5}, false},
		{"enough of both", []byte{1, 2, 3, 4}, []byte{1, 2, 3, 4, 5}, []byte{2, 3}, true},
		{"strangers say so", []byte{1, 2, 3}, []byte{1, 2}, []byte{7, 8}, false},
	} {
		change := NewChange(formed(16, c.from...), 17, voters(c.to...), id(1))
		for _, who := range c.acks {
			change.Ack(id(who))
		}
		if got := change.Holds(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if r := change.Offered(); r.Version != 17 || !r.Formed || !slices.Equal(r.IDs, voters(c.to...)) {
			t.Errorf("%s: offers %+v", c.name, r)
		}
		if !slices.Equal(change.Was(), voters(c.from...)) {
			t.Errorf("%s: was %v", c.name, change.Was())
		}
	}
}

// A leader confirms the voters that it found, under the first version of its epoch.
func TestAConfirmationIsOfWhatWasFound(t *testing.T) {
	c := Confirm(formed(17, 1, 2, 3), 5, voters(1, 2), id(1))
	if r := c.Offered(); r.Version != 80 || !r.Formed || !slices.Equal(r.IDs, voters(1, 2, 3)) {
		t.Errorf("offers %+v", r)
	}
	if c.Holds() {
		t.Error("holds by its leader's word")
	}
	if c.Ack(id(3)); !c.Holds() {
		t.Error("does not hold by a majority's word")
	}
}
