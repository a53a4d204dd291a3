package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Player steps a Node through a record, which it reads as it goes: it needs the memory
// of a Node, however long the record is.
type Player struct {
	record  *Record
	next    int // segment
	node    *election.Node
	chance  *rand.PCG
	reader  reader
	isCut   bool // of the segment
	frames  frames
	hashing hashing
	out     outcome
	steps   uint64 // number of the last step
	now     time.Time
	members map[wire.ID]bool // that the segment has told of
	failed  bool
	flaws   []string
}

// maxMembers bounds what a segment can make a Node remember: a file may tell of more
// members than any network has.
const maxMembers = 1 << 14

// Moment is one step of one Node. Event and Effects are valid until the next.
type Moment struct {
	At      time.Time // on the Node's clock
	Number  uint64    // of the step, counted from the Node's first
	Event   election.Event
	Effects []election.Effect
	// Difference is set where the Node does not do what it did; nothing comes after it.
	Difference *Difference
}

// Difference is where a replay parts from its record.
type Difference struct{ Recorded, Came string }

// Play begins at the start of the record.
func (r *Record) Play() *Player { return &Player{record: r} }

// Next steps once more; false: the record is at its end.
func (p *Player) Next() (m Moment, ok bool) {
	for !p.failed {
		if p.node != nil && len(p.reader.left) > 0 {
			if m, ok = p.step(); ok {
				return m, true
			}
			continue // the segment goes no further
		}
		if p.next == len(p.record.segments) {
			return Moment{}, false
		}
		if m, ok = p.begin(); ok {
			return m, true
		}
	}
	return Moment{}, false
}

// Flaws says what could not be replayed, besides the record's own Flaws.
func (p *Player) Flaws() []string { return p.flaws }

// begin restores the Node of the next segment. Where the segment before led to another
// state, that is a Moment.
func (p *Player) begin() (m Moment, ok bool) {
	part := p.record.segments[p.next]
	p.next++
	was := p.node
	p.node = nil
	if part.bytes == nil {
		return m, false // said in the record's Flaws
	}
	p.reader, p.isCut = reader{left: part.bytes}, part.isCut
	var s start
	p.reader.value(&s)
	if p.reader.err != nil {
		p.flaw("has no beginning")
		return m, false
	}
	if m, ok = p.hold(was, &s); ok {
		p.failed = true
		return m, true
	}
	chance := new(rand.PCG)
	if err := chance.UnmarshalBinary(s.Chance); err != nil {
		p.flaw("has no source of chance")
		return m, false
	}
	node, err := election.Restore(s.Picture, rand.New(chance))
	if err != nil {
		p.flaw(err.Error())
		return m, false
	}
	p.node, p.chance, p.steps, p.now = node, chance, s.Number-1, s.Now
	p.members = map[wire.ID]bool{}
	p.frames.reset()
	return m, false
}

func (p *Player) flaw(what string) {
	if !p.isCut {
		p.flaws = append(p.flaws, fmt.Sprintf("segment %d is damaged: it %s", p.next, what))
	}
}

// hold compares the Node as the segment before left it with the picture taken then.
func (p *Player) hold(was *election.Node, s *start) (Moment, bool) {
	if was == nil || p.steps+1 != s.Number {
		return Moment{}, false
	}
	chance, _ := p.chance.MarshalBinary() // never fails
	if bytes.Equal(was.AppendPicture(nil), s.Picture) && bytes.Equal(chance, s.Chance) {
		return Moment{}, false
	}
	const hidden = "all effects so far were the same, and the node's state is not"
	return Moment{At: s.Now, Number: p.steps, Event: election.Tick{}, Difference: &Difference{Recorded: "another state of the node", Came: hidden}}, true
}

// step replays one step; false: the segment cannot be read any further.
func (p *Player) step() (Moment, bool) {
	r := &p.reader
	now := p.now.Add(time.Duration(r.varint()))
	ev := p.event()
	recorded := getOutcome(r)
	if r.err != nil {
		if !errors.Is(r.err, errEnd) || !p.isCut {
			p.flaw(fmt.Sprintf("cannot be read behind step %d", p.steps))
		}
		p.node = nil
		return Moment{}, false
	}
	p.now, p.steps = now, p.steps+1
	effects, panicked := p.run(now, ev)
	m := Moment{At: now, Number: p.steps, Event: ev, Effects: effects}
	switch p.out = p.hashing.put(p.out[:0], effects); {
	case panicked != "":
		m.Difference = &Difference{Recorded: recorded.String(), Came: "panic: " + panicked}
	case !bytes.Equal(p.out, recorded):
		m.Difference = &Difference{Recorded: recorded.String(), Came: effectsText(effects)}
		if p.out.String() == m.Difference.Recorded {
			m.Difference.Recorded += fmt.Sprintf(" with other contents (checksum %08x, not %08x)", recorded.sum(), p.out.sum())
		}
	}
	p.failed = m.Difference != nil
	return m, true
}

// event takes one off the segment.
func (p *Player) event() (ev election.Event) {
	r := &p.reader
	if len(r.left) > 0 && r.left[0] == numberReceived {
		r.byte()
		return p.frames.get(r)
	}
	r.value(&ev)
	if m, isMember := ev.(election.MemberChanged); isMember {
		p.members[m.Member.ID] = true
	}
	if r.err == nil && (ev == nil || len(p.members) > maxMembers) {
		r.fail("event")
	}
	return ev
}

// run steps the Node. One that a record's bytes have made up may be in a state that no
// Node is ever in.
func (p *Player) run(now time.Time, ev election.Event) (effects []election.Effect, panicked string) {
	defer func() {
		if cause := recover(); cause != nil {
			effects, panicked = nil, fmt.Sprint(cause)
		}
	}()
	return p.node.Step(now, ev), ""
}

func effectsText(effects []election.Effect) string {
	if len(effects) == 0 {
		return "nothing"
	}
	texts := make([]string, len(effects))
	for i, e := range effects {
		texts[i] = e.String()
	}
	return strings.Join(texts, ", ")
}
