package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/wire"
)

// anAttack is one thing that anybody on the LAN could do to agents that believed what they were
// told. On agents that do not, none of it is seen.
type anAttack struct {
	name    string
	hosts   int
	options []string
	// try makes the attack on hosts that agree on their best, or do not run yet if isBefore, and is
	// nil if its damage was seen.
	try      func(l *lan, a *attacker) error
	isBefore bool // the last host is not started: try does it
	hasJobs  bool
}

var attacks = []anAttack{
	{name: "Case07: two datagrams end an agent", hosts: 3, try: func(l *lan, a *attacker) error {
		a.impersonate(l.hosts[0])
		return l.ends(l.hosts[0])
	}},
	{name: "Case08: a forged alive ends an agent that starts", hosts: 3, isBefore: true, try: func(l *lan, a *attacker) error {
		life := a.know.LifeOf(a.peer(l.hosts[0]))
		life.ID, life.Nonce, life.Addr = wire.ID{7: 0x40, 8: 0x80, 15: 1}, 99, a.own
		best := l.best()
		best.start()
		for range 100 {
			a.gossip(best, life.Alive())
			time.Sleep(20 * time.Millisecond)
		}
		return l.ends(best)
	}},
	{name: "Case09: eight datagrams depose the leader", hosts: 5, try: func(l *lan, a *attacker) error {
		leader := a.peer(l.best())
		for _, ahead := range []uint32{1 << 30, 1<<31 - 1000} {
			a.sayAll(leader, l.hosts, wire.Frame{Kind: wire.ResignAck, Seq: ahead})
		}
		return l.isDeposed(5 * time.Second)
	}},
	{name: "Case10: a forged RESIGN makes two leaders in quorum mode", hosts: 3, options: []string{"--expect", "3"},
		try: func(l *lan, a *attacker) error {
			leader, beat, _ := a.know.Leader()
			a.sayAll(leader, l.hosts, wire.Frame{Kind: wire.Resign, Epoch: beat.Epoch, Reason: wire.Transfer, Successor: a.peer(l.next()).Frame.Sender})
			return l.twoLead(l.next(), l.best())
		}},
	{name: "Case37: voters follow a member that is no voter", hosts: 3, options: []string{"--expect", "3"},
		try: func(l *lan, a *attacker) error {
			stranger := a.forge.Stranger()
			if a.inside != nil {
				stranger = a.inside.itself()
			}
			life := a.know.LifeOf(stranger)
			_, beat, _ := a.know.Leader()
			epoch := wire.Epoch{Counter: beat.Epoch.Counter + 1, Owner: stranger.Frame.Sender}
			seq := uint32(0)
			return l.within(5*time.Second, func() error {
				seq++
				for _, h := range l.hosts {
					a.gossip(h, life.Alive())
				}
				a.sayAll(stranger, l.hosts, wire.Frame{Kind: wire.Heartbeat, Seq: seq, Flags: wire.Active, Epoch: epoch, Lease: 400, Interval: 50})
				return l.someoneFollows(stranger.Frame.Sender)
			})
		}},
	{name: "Case44: a job is paused for ever, on every disk", hosts: 3, hasJobs: true, try: func(l *lan, a *attacker) error {
		now := uint64(time.Now().Unix())
		switched := attack.Ledger{Jobs: []attack.Job{{Name: "skip", Floor: now, Slot: now, Owner: a.peer(l.hosts[0]).Frame.Sender, Epoch: 1,
			Claimed: now * 1000, Timeout: 1, Version: math.MaxUint32, IsPaused: true}}}
		a.sayAll(a.peer(l.hosts[0]), l.hosts, wire.Frame{Kind: wire.JobRecord, Seq: 1 << 20, Payload: string(switched.Bytes())})
		if err := l.within(5*time.Second, func() error { return l.havePaused(l.except(l.hosts[0])...) }); err != nil {
			return err
		}
		for _, h := range l.hosts {
			h.stop()
		}
		l.start()
		l.agree()
		if err := l.within(5*time.Second, func() error { return l.havePaused(l.hosts...) }); err != nil { // and h1 was told meanwhile
			return err
		}
		return l.staysPaused("skip")
	}},
	{name: "Case45: a fence far ahead refuses the leader's own claims", hosts: 3, hasJobs: true, options: []string{"--expect", "3"},
		try: func(l *lan, a *attacker) error {
			leader, beat, _ := a.know.Leader()
			now := uint64(time.Now().Unix())
			beat.Epoch.Counter += 1 << 20
			claim := attack.Ledger{Jobs: []attack.Job{{Name: "junk", Floor: now, Slot: now, Owner: leader.Frame.Sender, Epoch: beat.Epoch.Counter,
				Claimed: now * 1000, Timeout: 60}}}
			a.sayAll(leader, l.hosts, wire.Frame{Kind: wire.JobClaim, Seq: 1 << 20, Epoch: beat.Epoch, Payload: string(claim.Bytes())})
			return l.within(5*time.Second, func() error { return l.refusesClaims(l.best()) })
		}},
	{name: "Case11: a forged LEAVE takes the leader away", hosts: 3, try: func(l *lan, a *attacker) error {
		before := len(transitions(l.except(l.best())))
		a.sayAll(a.peer(l.best()), l.hosts, wire.Frame{Kind: wire.Leave, Seq: 10})
		return l.within(5*time.Second, func() error {
			if len(transitions(l.except(l.best()))) == before {
				return errors.New("nobody took notice")
			}
			return nil
		})
	}},
	{name: "Case36: a new life moves a member's address", hosts: 3, try: func(l *lan, a *attacker) error {
		moved := a.peer(l.hosts[0])
		moved.Frame.Nonce, moved.Frame.Incarnation = moved.Frame.Nonce+1, moved.Frame.Incarnation+1
		round := uint32(0)
		return l.within(5*time.Second, func() error {
			round++
			a.say(moved, l.hosts[1], wire.Frame{Kind: wire.Query, Seq: round, Round: round, Flags: wire.AckReq})
			for _, p := range a.tape.Packets() { // the answer, or any frame that was meant for the member
				if p.From == l.hosts[1].addr && p.To == a.own && len(p.Payload) > 1 && p.Payload[0] == wire.Magic0 && p.Payload[1] == wire.Magic1 {
					return nil
				}
			}
			for _, m := range l.hosts[1].members() {
				if m.Name == l.hosts[0].name && m.Addr == a.own.String() {
					return nil
				}
			}
			return errors.New("nothing that is the member's is sent to the attacker")
		})
	}},
	{name: "Case39: a datagram of 31 KB costs 100 MB", hosts: 3, try: func(l *lan, a *attacker) error {
		before := l.best().memoryMB()
		bomb := attack.Bomb(38 << 20)
		return l.within(5*time.Second, func() error {
			a.gossip(l.best(), bomb)
			if grown := l.best().memoryMB() - before; grown < 100 {
				return fmt.Errorf("a datagram of %d bytes cost %.0f MB", len(bomb), grown)
			}
			return nil
		})
	}},
	{name: "Case41: 20,000 lives of one id are kept", hosts: 3, try: func(l *lan, a *attacker) error {
		before := l.best().memoryMB()
		life := a.know.LifeOf(a.peer(l.hosts[0]))
		life.Addr = l.hosts[0].addr
		var lives []attack.Packet
		for i := range uint32(20_000) {
			life.Nonce, life.Incarnation = i, i
			payload := attack.Gossip{Cluster: clusterName}.Datagram(life.Alive())
			lives = append(lives, attack.Packet{From: a.own, To: l.best().addr, Payload: payload})
		}
		if a.inside == nil {
			must(l.t, a.gun.Volley(context.Background(), 4000, lives))
		}
		for i := range lives {
			if a.inside != nil {
				a.inside.tells(l.best().addr, lives[i].Payload)
				time.Sleep(time.Second / 4000)
			}
		}
		if grown := l.best().memoryMB() - before; grown < 10 {
			return fmt.Errorf("they cost %.0f MB", grown)
		}
		return nil
	}},
	{name: "Case81: a few addresses take a member's place", hosts: 3, try: func(l *lan, a *attacker) error {
		a.dial(l.best(), 64, attack.Tether(clusterName))
		a.dial(l.best(), 64, nil)
		member := l.hosts[0]
		honest := attack.Crowd{From: []netip.Addr{member.addr.Addr()}, To: l.best().addr}
		must(l.t, member.net.Within(func() error { honest.Dial(context.Background(), 1, nil); return nil }))
		defer honest.Close()
		if honest.Kept() != 0 {
			return errors.New("there is a place for a member")
		}
		return nil
	}},
}

// Each attack is seen to work on the agent of before there was any defence, which BULLY_E2E_UNGUARDED
// names: else the tests that show it to fail would show nothing.
func TestAttacksWorkWithoutDefence(t *testing.T) {
	needsLAN(t)
	program := os.Getenv("BULLY_E2E_UNGUARDED")
	if program == "" {
		t.Skip("skipped: BULLY_E2E_UNGUARDED names no agent from before there were defences")
	}
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			if err := tryOn(t, program, attack, fromOutside); err != nil {
				t.Errorf("the attack does not work: %v", err)
			}
		})
	}
}

// The same, on agents of today: by whoever reaches the port and knows all that members know, and by who is a member in its own
// right, with the cluster's key or in a cluster without one.
func TestAttacksFail(t *testing.T) {
	needsLAN(t)
	for _, by := range []stance{fromOutside, byAnyMember, byHolderOfTheKey} {
		t.Run(string(by), func(t *testing.T) {
			for _, attack := range attacks {
				t.Run(attack.name, func(t *testing.T) {
					if err := tryOn(t, "", attack, by); err == nil {
						t.Error("the attack works")
					} else {
						t.Log("it does not work:", err)
					}
				})
			}
		})
	}
}

// stance is what the attacker is to the cluster.
type stance string

const (
	fromOutside      stance = "from outside"
	byAnyMember      stance = "by a member of a cluster without a key"
	byHolderOfTheKey stance = "by a holder of the key"
)

// tryOn makes an attack on a LAN of its own.
func tryOn(t *testing.T, program string, attack anAttack, by stance) error {
	t.Helper()
	t.Parallel()
	l := newLAN(t, attack.hosts, attack.options...)
	if program != "" {
		l.mayOverlap("an attacker may make two leaders")
	}
	l.other = program
	if by != byHolderOfTheKey {
		l.withoutKeys()
	}
	if attack.hasJobs {
		l.withJobs(jobTable)
	}
	if attack.name[:6] == "Case10" {
		l.best().onLose = "sleep 0.3" // it has not let go before this has ended
	}
	a := l.invade()
	start := l.hosts
	if attack.isBefore {
		start = start[:len(start)-1]
	}
	l.start(start...)
	l.agreeOn(start[len(start)-1])
	if by != fromOutside {
		a.join().spies(start...)
	}
	for _, h := range start {
		a.peer(h)
	}
	err := attack.try(l, a)
	if err == nil {
		t.Log("the attack works")
	}
	return err
}

// within repeats what is tried until it is nil, and gives its last error when that takes too long.
func (l *lan) within(bound time.Duration, try func() error) error {
	for begun := time.Now(); ; time.Sleep(pollInterval) {
		err := try()
		if err == nil || time.Since(begun) > bound {
			return err
		}
	}
}

// ends is nil if the agent on h has ended by itself.
func (l *lan) ends(h *host) error {
	select {
	case <-h.agent.done:
		l.t.Logf("the agent of %s has ended: %v", h, h.agent.err)
		h.agent = nil
		return nil
	case <-time.After(5 * time.Second):
		return fmt.Errorf("the agent of %s still runs", h)
	}
}

// isDeposed is nil if somebody else than the best began to lead, or it had to begin again.
func (l *lan) isDeposed(bound time.Duration) error {
	return l.within(bound, func() error {
		becomes := l.journal.becomes()
		if len(becomes) < 2 {
			return fmt.Errorf("only %v began to lead", becomes)
		}
		l.t.Logf("%v began to lead", becomes)
		return nil
	})
}

// twoLead is nil if one began to lead before the other's lose hook had ended.
func (l *lan) twoLead(one, other *host) error {
	return l.within(5*time.Second, func() error {
		for _, r := range slices.Backward(l.journal.read()) {
			switch {
			case r.Node == other.name && r.What == loseEnd:
				return fmt.Errorf("%s had let go before", other)
			case r.Node == one.name && r.What == becomeBegin:
				return nil
			}
		}
		return fmt.Errorf("%s never led", one)
	})
}

func (l *lan) someoneFollows(id wire.ID) error {
	for _, h := range l.hosts {
		if s, err := h.status(); err == nil && s.Leader != nil && s.Leader.ID == id.String() {
			l.t.Logf("%s follows the stranger in epoch %d", h, s.Epoch.Counter)
			return nil
		}
	}
	return errors.New("nobody follows the stranger")
}

// havePaused is nil if some job is paused for ever on each of these hosts.
func (l *lan) havePaused(hosts ...*host) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, h := range hosts {
		all, err := h.client.Jobs(ctx, 0)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(j control.Job) bool { return j.Paused }) {
			return fmt.Errorf("no job is paused on %s", h)
		}
	}
	l.t.Logf("a job is paused on %v", hosts)
	return nil
}

// staysPaused is nil if a person's word does not end a pause everywhere.
func (l *lan) staysPaused(job string) error {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	must(l.t, l.hosts[1].client.ResumeJob(ctx, job))
	err := l.within(5*time.Second, func() error {
		for _, h := range l.hosts {
			if l.havePaused(h) == nil {
				return fmt.Errorf("it is still paused on %s", h)
			}
		}
		return nil
	})
	if err != nil {
		l.t.Log(err)
		return nil
	}
	return errors.New("a person's word ends it on every host")
}

// refusesClaims is nil if none of the leader's jobs was witnessed lately.
func (l *lan) refusesClaims(leader *host) error {
	s, err := leader.status()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	runs, err := leader.client.JobRuns(ctx, "once")
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Outcome == "unclaimed" {
			l.t.Logf("the leader of epoch %d: %+v", s.Epoch.Counter, r)
			return nil
		}
	}
	return fmt.Errorf("none of %d runs was refused", len(runs))
}
