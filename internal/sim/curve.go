package sim

import (
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
)

// Products of keys would be much of a schedule's work. So the sessions of a schedule compute with a model of X25519. In it two keys
// come to the sum of their public ones. It is the same at both ends, and differs from that of all other pairs. Anybody who has read both
// public keys could compute it. Nobody in a schedule does: whoever attacks has the code of a Table, and no other.

// modelKey is a private key in the model, of which only the public one matters.
type modelKey [identity.Size]byte

func (k *modelKey) Public() []byte { return k[:] }

func (k *modelKey) Shared(public []byte) ([]byte, error) {
	sum := make([]byte, identity.Size)
	for i := range sum {
		sum[i] = k[i] ^ public[i]
	}
	return sum, nil
}

// curve makes keys of the model. A host's key has the public key of which the host's id follows. That of a handshake is public as it is.
func (p *ports) curve(raw *[identity.Size]byte) (session.CurveKey, error) {
	if p.isX25519 {
		return session.X25519(raw)
	}
	k := modelKey(*raw)
	if public, isHosts := p.publics[*raw]; isHosts {
		k = modelKey(public)
	}
	return &k, nil
}
