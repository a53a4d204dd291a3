package session

import (
	"cmp"
	"crypto/hmac"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// maxReceipts bounds those that are kept: four times the hosts that the protocol was designed for.
const maxReceipts = 4096

// Receipt is what a host gives others of one of its lives, to be shown back (S19). It means something to that host alone.
type Receipt struct {
	ID          wire.ID
	Incarnation uint32
	Text        identity.Receipt
}

// receipts are those that other hosts have given this one, the newest of each, and the newest that this host knows of itself.
// They outlive the tables of one process.
//
// Invariant: what is kept of a host came in a session of its own, from a life that was not held.
type receipts struct {
	key     identity.Private
	own     Receipt
	life    uint32 // incarnation of the present life
	kept    map[wire.ID]*keptReceipt
	roster  []wire.ID // whose receipts make room for nobody's
	turn    uint64    // of who was heard last
	version uint64    // another one once there is something to be written
}

type keptReceipt struct {
	Receipt
	turn uint64    // when its host was heard last: the higher, the later
	met  time.Time // when its host was heard first; zero: before this process began
}

// knownAfter is how long a host was known that is none of those that are new, of which a holder of the key makes as many as it likes.
const knownAfter = 10 * time.Minute

// isKnown reports whether a host has a place apart from those that are new together: it is in the roster, or was met long ago.
func (r *receipts) isKnown(now time.Time, id wire.ID) bool {
	k := r.kept[id]
	return k != nil && now.Sub(k.met) >= knownAfter || slices.Contains(r.roster, id)
}

// newReceipts takes what was kept before, those first whose hosts were absent for longest. id is that of this host's key.
func newReceipts(key identity.Private, id wire.ID, before []Receipt) *receipts {
	r := &receipts{key: key, own: Receipt{ID: id}, kept: make(map[wire.ID]*keptReceipt)}
	for _, b := range before[max(len(before)-maxReceipts, 0):] {
		if r.turn++; b.ID != r.own.ID {
			r.kept[b.ID] = &keptReceipt{Receipt: b, turn: r.turn}
		} else if b.Incarnation > r.own.Incarnation && r.isOurs(b) {
			r.own = b
		}
	}
	return r
}

// begin has a life begin, which gives a receipt of its own.
func (r *receipts) begin(incarnation uint32) {
	if r.life = incarnation; incarnation > r.own.Incarnation && !r.isOlder() {
		r.own = Receipt{r.own.ID, incarnation, r.key.Receipt(incarnation)}
		r.version++
	}
}

// isOurs reports whether this host made a receipt.
func (r *receipts) isOurs(b Receipt) bool {
	want := r.key.Receipt(b.Incarnation)
	return hmac.Equal(b.Text[:], want[:])
}

// isOlder reports whether this host had a later life than the present one: its state is an older copy. It is so for good.
func (r *receipts) isOlder() bool { return r.life > 0 && r.own.Incarnation > r.life }

// see takes what another host shows as a receipt of this one. It reports whether that is the first to prove that the state is an
// older copy.
func (r *receipts) see(incarnation uint32, text identity.Receipt) bool {
	shown, wasOlder := Receipt{r.own.ID, incarnation, text}, r.isOlder()
	if incarnation <= r.own.Incarnation || !r.isOurs(shown) {
		return false
	}
	r.own = shown
	r.version++
	return !wasOlder
}

// keep takes what a life gives, unless a later one of its host has given something.
func (r *receipts) keep(now time.Time, who Life, text identity.Receipt) {
	k := r.kept[who.ID]
	switch {
	case text.IsZero() || r.isPast(who):
		return
	case k == nil:
		r.makeRoom()
		k = &keptReceipt{met: now}
		r.kept[who.ID] = k
	}
	if r.turn++; k.Text.IsZero() || who.Incarnation > k.Incarnation {
		k.Receipt = Receipt{who.ID, who.Incarnation, text}
		r.version++
	}
	k.turn = r.turn
}

// makeRoom drops the receipt of who is absent for longest, of those outside the roster, if there is no room for another.
func (r *receipts) makeRoom() {
	if len(r.kept) < maxReceipts {
		return
	}
	var longest *keptReceipt
	for id, k := range r.kept {
		if (longest == nil || k.turn < longest.turn) && !slices.Contains(r.roster, id) {
			longest = k
		}
	}
	if longest != nil {
		delete(r.kept, longest.ID)
	}
}

// of is what is shown to a host; zero: nothing is kept of it.
func (r *receipts) of(id wire.ID) Receipt {
	if k := r.kept[id]; k != nil {
		return k.Receipt
	}
	return Receipt{}
}

// isPast reports whether a life is one of the past: a later one of its host has given a receipt.
func (r *receipts) isPast(who Life) bool { return who.Incarnation < r.of(who.ID).Incarnation }

// all are those to be written, in an order that newReceipts takes. This host's own is the last.
func (r *receipts) all() []Receipt {
	var kept []*keptReceipt
	for _, k := range r.kept {
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b *keptReceipt) int { return cmp.Compare(a.turn, b.turn) })
	var all []Receipt
	for _, k := range kept {
		all = append(all, k.Receipt)
	}
	if r.own.Text.IsZero() {
		return all
	}
	return append(all, r.own)
}

// Receipts are those to be kept on disk, if they are others than at a version; else none, and that version. They are the first of
// Config.Receipts in the next process.
func (t *Table) Receipts(since uint64) (all []Receipt, version uint64) {
	if t.receipts.version == since {
		return nil, since
	}
	return t.receipts.all(), t.receipts.version
}

// SetRoster names the hosts whose receipts make room for nobody's, and who have places of their own from the first moment.
func (t *Table) SetRoster(ids []wire.ID) { t.receipts.roster = ids }

// IsKnown reports whether a host is none of those that are new: it is in the roster or the host list, or was met ten minutes ago.
func (t *Table) IsKnown(now time.Time, id wire.ID) bool {
	return t.gate.hosts.Has(id) || t.receipts.isKnown(now, id)
}

// IsOlder reports whether others have proved that this host had a later life than the present one (S19). Its state is an older
// copy, which has forgotten what it promised. So the table says nothing more and opens nothing more.
func (t *Table) IsOlder() bool { return t.receipts.isOlder() }

// hearReceipts takes the two receipts of a HELLO. p was judged before: what a life that is held gives is not kept.
func (t *Table) hearReceipts(now time.Time, p *peer, h hello) {
	if p.ID == t.self.life.ID {
		return // a copy of this host, which knows no more of it
	}
	if p.held == nil {
		t.receipts.keep(now, p.Life, h.given)
	}
	if t.receipts.see(h.shown.Incarnation, h.shown.Text) {
		t.onOlder(h.shown.Incarnation)
	}
}
