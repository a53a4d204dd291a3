package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// wills is what the world knows of all secrets (M24).
type wills struct {
	given uint64
	of    map[wire.Commitment]testator
	said  uint64 // datagrams
}

// testator is the life whose keeper has a secret.
type testator struct {
	who   *machine
	life  int32
	nonce uint32
}

// trust gives a new keeper a secret, which nobody else keeps.
func (w *World) trust(m *machine, k *keeper) {
	w.wills.given++
	s := secretOf(w.wills.given)
	if w.wills.of == nil {
		w.wills.of = map[wire.Commitment]testator{}
	}
	k.nonce = m.nonce
	w.wills.of[s.Commit()] = testator{m, m.life, m.nonce}
	w.give(m, order{secret: &s})
}

// secretOf is the n-th secret of a world. Secrets are far apart, as those that are random: the network damages bits.
func secretOf(n uint64) wire.Secret {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
}

// hasSecret: the keeper has taken its secret, and its agent comes to know that.
func (w *World) hasSecret(k *keeper, s wire.Secret) {
	k.secret = s
	m := k.host
	k.saysAt = max(k.saysAt, w.now+int64(50*time.Microsecond))
	w.after(time.Duration(k.saysAt-w.now), func() {
		if m.runs() && m.life == k.life && m.client.keeper == k {
			w.step(m, election.Entrusted{Commitment: s.Commit()})
		}
	})
}

// onOver: the keeper of a dead agent says its will, if others may be told, and ends (M24).
func (w *World) onOver(k *keeper, e hooks.Over) {
	switch {
	case w.keepers.isPlain || len(k.heirs) == 0 || !k.sawDeath:
		w.in(k, 0, func() { w.endKeeper(k) })
	case !e.IsClear:
		w.fired(WillVoid)
		w.in(k, 0, func() { w.endKeeper(k) })
	default:
		w.fired(WillSent)
		w.in(k, w.keeperTakes(2*time.Millisecond), func() { w.sayWill(k, 3) })
	}
}

// sayWill tells the heirs, and does so some times more.
func (w *World) sayWill(k *keeper, times int) {
	m := k.host
	for _, to := range k.heirs {
		w.i18WillAfterItsLoseHook(k)
		w.say(m, "→ %v WILL", to)
		w.frames++
		w.wills.said++
		w.carryDatagram(m, to, wire.AppendWill(nil, k.secret))
	}
	switch {
	case times == 1:
		w.endKeeper(k)
	case w.keepers.die && w.keepers.oneIn(4):
		w.killOne(k, KeeperDiesSending)
	default:
		w.in(k, 20*time.Millisecond+w.keeperTakes(time.Millisecond), func() { w.sayWill(k, times-1) })
	}
}

// handWill gives a will to the process, if it ends somebody there, as agent/will.go does.
func (w *World) handWill(m *machine, s wire.Secret) {
	c := s.Commit()
	if known := m.node.Pledges(); !known.Match(c) {
		return
	}
	w.i18WillOfTheDead(m, c)
	was := m.node.Status().Leader
	life := m.life
	w.step(m, election.WillHeard{Commitment: c})
	if _, isKept := w.wills.of[c]; !isKept && m.life == life && m.runs() && m.node.Status().Leader != was {
		w.i18SecretIsNeeded(m, was)
	}
}

// forgeWill says wills, of which the insider has not the secret of any: a guess, and its own, which it has announced
// for an epoch of its own and for that of the leader.
func (in *insider) forgeWill(at *machine) {
	var guess, own wire.Secret
	for _, s := range []*wire.Secret{&guess, &own} {
		binary.BigEndian.PutUint64(s[24:], in.rng.Uint64())
	}
	e := wire.Epoch{Counter: at.epoch.Counter + uint64(in.rng.IntN(2)), Owner: at.epoch.Owner}
	if in.rng.IntN(2) == 0 {
		e.Owner = in.host.id
	}
	m := in.put(in.host, in.host.addr())
	f := wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active, Epoch: e, Lease: 400, Interval: 50,
		Will: own.Commit().Hash(cluster, e, m.incarnation, m.nonce)}
	m.say(at.addr(), &f)
	for _, s := range []wire.Secret{guess, own} {
		will := wire.AppendWill(nil, s)
		in.w.after(time.Duration(in.rng.IntN(int(50*time.Millisecond))), func() { in.send(at.addr(), will) })
	}
}
