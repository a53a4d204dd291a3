package election

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/internal/pack"
)

// A picture is all of a Node as bytes, except for its source of chance and the effects of
// its last step: a Node restored from it does in its next Step what the first would have
// done. So a record of events need not go back to a Node's birth.

// pictures packs a Node.
func pictures(base int64) pack.Codec {
	return pack.Codec{Base: base, Variants: map[reflect.Type][]reflect.Type{
		reflect.TypeFor[quorum.Offer](): {
			reflect.TypeFor[*quorum.Proposal](), reflect.TypeFor[*quorum.Change](), reflect.TypeFor[*quorum.Confirmation](),
		},
	}}
}

// AppendPicture writes a picture of n behind dst. Before the event SaveFailed there is
// none to be taken: what that one does depends on the effects of the step before.
func (n *Node) AppendPicture(dst []byte) []byte {
	base := n.now.UnixNano()
	dst = pack.Codec{}.Append(dst, &base)
	return pictures(base).Append(dst, n)
}

// Restore gives the Node of a picture, with a source of chance in the state that the
// first one's had. The bytes may be anything.
func Restore(picture []byte, chance *rand.Rand) (*Node, error) {
	var base int64
	rest, err := pack.Codec{}.Parse(picture, &base)
	if err != nil {
		return nil, fmt.Errorf("restore node: %w", err)
	}
	n := new(Node)
	if rest, err = pictures(base).Parse(rest, n); err != nil {
		return nil, fmt.Errorf("restore node: %w", err)
	}
	n.cfg.Rand = chance
	n.strategy = strategyOf(n.cfg.Algorithm)
	if len(rest) > 0 || !n.isWhole() {
		return nil, fmt.Errorf("restore node: %w state", pack.ErrMalformed)
	}
	return n, nil
}

// PictureSchema tells programs apart that cannot read each other's pictures.
func PictureSchema() uint32 { return pictures(0).Schema(reflect.TypeFor[Node]()) }

// isWhole: n has what every Node has. A picture may have been made up.
func (n *Node) isWhole() bool {
	_, err := n.cfg.withDefaults()
	return err == nil && n.state >= Start && int(n.state) < len(stateNames) && !slices.Contains(n.peers, nil) &&
		!slices.Contains(n.exchanges, nil) && slices.IsSortedFunc(n.peers, func(a, b *peer) int { return a.ID.Compare(b.ID) })
}
