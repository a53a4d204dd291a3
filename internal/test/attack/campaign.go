package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Campaign is all that the attacker can do, in turn, until its context ends. The caller listens
// for it: Tape has what was heard.
type Campaign struct {
	Gun     *Gun
	Tape    *Tape
	Forger  *Forger
	Gossip  Gossip
	Crowd   netip.Prefix // of a network whose addresses are nobody's, for floods from many
	Streams []*Crowd     // one for each host; empty: no streams are opened
	Rate    int          // datagrams a second; bursts have MaxRate

	tally map[string]uint64
}

// Of one turn of each kind: bounds of what is made and sent at once.
const (
	turnLength   = time.Second
	burstLength  = time.Second
	bombs        = 30
	bombUnpacked = 32 << 20
	mostReplayed = 20_000 // of the end of a tape
	idleStreams  = 100    // on each host; 500 on five
)

// Run goes on until ctx ends, and returns what was sent of each kind. Errors are of the sockets.
func (c *Campaign) Run(ctx context.Context) (tally string, err error) {
	c.tally = map[string]uint64{}
	for ctx.Err() == nil && err == nil {
		for _, turn := range c.turns() {
			if err = turn.run(ctx, turn.name); err != nil || ctx.Err() != nil {
				break
			}
		}
	}
	for _, s := range c.Streams {
		s.Close()
	}
	return c.words(), err
}

type turn struct {
	name string
	run  func(ctx context.Context, name string) error
}

func (c *Campaign) turns() []turn {
	r := c.Forger.Random
	replay := func(change func([]Packet) []Packet) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			heard := Datagrams(c.Tape.Packets())
			heard = heard[max(0, len(heard)-mostReplayed):]
			return c.fire(ctx, name, c.Rate, Reachable(change(heard)))
		}
	}
	forge := func(make func() Packet) func(context.Context, string) error {
		return func(ctx context.Context, name string) error { return c.fire(ctx, name, c.Rate, c.many(c.Rate, make)) }
	}
	heard := Datagrams(c.Tape.Packets())
	heard = append(slices.Clone(heard[max(0, len(heard)-100):]), calls(heard)...)
	return []turn{
		{"forged frames", forge(c.Forger.Frame)},
		{"replayed in order", replay(func(p []Packet) []Packet { return p })},
		{"forged gossip", forge(func() Packet { return c.Forger.Whisper(c.Gossip) })},
		{"streams", c.streams},
		{"replayed ten times, shuffled", replay(func(p []Packet) []Packet { return Shuffle(r, Repeat(p, 10)) })},
		{"fake seals", forge(func() Packet { return c.Forger.Fake(heard) })},
		{"replayed to others", replay(func(p []Packet) []Packet { return Divert(r, p, c.Forger.Targets) })},
		{"reflected", replay(Reflect)},
		{"relayed", replay(func(p []Packet) []Packet { return Relay(p, c.Forger.Own) })},
		{"mutated", replay(func(p []Packet) []Packet { return Mutate(r, p) })},
		{"LZW bombs", c.bomb},
		{"burst of frames", c.burst(c.Forger.Frame)},
		{"burst of fake seals", c.burst(func() Packet { return c.Forger.Crowded(c.Crowd, heard) })},
		{"burst of gossip", c.burst(func() Packet { return c.Forger.Whisper(c.Gossip) })},
	}
}

// fire sends packets at a rate, for the length of a turn at most.
func (c *Campaign) fire(ctx context.Context, name string, rate int, packets []Packet) error {
	ctx, cancel := context.WithTimeout(ctx, turnLength)
	defer cancel()
	before := c.Gun.Sent()
	err := c.Gun.Volley(ctx, rate, packets)
	c.tally[name] += c.Gun.Sent() - before
	return err
}

// burst repeats a thousand packets as fast as a Gun may.
func (c *Campaign) burst(make func() Packet) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		ctx, cancel := context.WithTimeout(ctx, burstLength)
		defer cancel()
		return c.fire(ctx, name, MaxRate, Repeat(c.many(1000, make), MaxRate/1000))
	}
}

func (c *Campaign) bomb(ctx context.Context, name string) error {
	bomb := c.Gossip.Datagram(Bomb(bombUnpacked))
	return c.fire(ctx, name, bombs, c.many(bombs, func() Packet {
		return Packet{From: c.Forger.Own, To: pick(c.Forger.Random, c.Forger.Targets), Payload: bomb}
	}))
}

// streams opens what is silent, what says that it is a tether and what announces more than it has,
// and leaves it open until its next turn.
func (c *Campaign) streams(ctx context.Context, name string) error {
	heard := Datagrams(c.Tape.Packets())
	ctx, cancel := context.WithTimeout(ctx, 3*turnLength)
	defer cancel()
	for _, s := range c.Streams {
		s.Close()
		// Silence comes last: it takes the places of strangers, of whom nothing is read then.
		c.tally["bytes poured"] += uint64(s.Pour(ctx, c.Gossip.PushPull(0, 5<<20), 5<<20))
		for _, say := range [][]byte{c.Gossip.PushPull(1<<20, 0), c.Forger.Call(heard), Tether(c.Gossip.Cluster), {sealMagic0, sealMagic1}, nil} {
			c.tally[name] += uint64(s.Dial(ctx, idleStreams/5, say))
		}
	}
	return nil
}

func (c *Campaign) many(n int, make func() Packet) (all []Packet) {
	for range n {
		all = append(all, make())
	}
	return all
}

func (c *Campaign) words() string {
	var all []string
	for name, n := range c.tally {
		all = append(all, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// NewRandom is a source of chance that a seed repeats.
func NewRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
