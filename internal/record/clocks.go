package record

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// A clock maps a Node's clock to the time of the timeline, which is the first record's
// wall clock: first as the host's own wall clock had it when the record was taken, and
// where hosts have heard each other, so that what was sent comes before it is received.
type clock struct {
	offset    time.Duration // to be added to the Node's clock
	corrected time.Duration // how much of that frames have taught
	within    time.Duration // half the shortest round trip; 0: not known
	frames    int           // that taught it
}

// transit is what is known of the frames from one host to another: how long the quickest
// took, by the two wall clocks, and how many there were.
type transit struct {
	least  time.Duration
	frames int
}

// maxSends bounds how many frames of a record are remembered, to be found again at their
// receivers. Of a long one it is the first, and then one in sampleEvery.
const (
	maxSends    = 1 << 18
	allSends    = 1 << 16
	sampleEvery = 16
)

// sent is a frame as its receiver knows it.
type sent struct {
	by    wire.ID
	nonce uint32
	to    netip.AddrPort
	seq   uint32
}

// sightings are when frames were sent and received, on the wall clocks.
type sightings struct {
	sends    map[sent]time.Time
	receipts []map[sent]time.Time // by record
	count    []int                // of sends, by record
	addrs    map[netip.AddrPort]bool
}

func newSightings(records []*Record) *sightings {
	s := &sightings{sends: map[sent]time.Time{}, count: make([]int, len(records)), addrs: map[netip.AddrPort]bool{}}
	for _, r := range records {
		s.receipts = append(s.receipts, map[sent]time.Time{})
		s.addrs[r.Self.Addr] = true
	}
	return s
}

// note takes what of a moment of this record helps: frames to hosts that have a record.
func (s *sightings) note(i int, r *Record, m *Moment) {
	at := m.At.Add(r.Wall.Sub(r.Now))
	if e, ok := m.Event.(election.Received); ok && s.samples(len(s.receipts[i]), e.Frame.Seq) {
		s.receipts[i][sent{e.Frame.Sender, e.Frame.Nonce, r.Self.Addr, e.Frame.Seq}] = at
	}
	for _, effect := range m.Effects {
		if e, ok := effect.(election.Send); ok && s.addrs[e.To] && s.samples(s.count[i], e.Frame.Seq) {
			s.sends[sent{r.ID, e.Frame.Nonce, e.To, e.Frame.Seq}] = at
			s.count[i]++
		}
	}
}

func (s *sightings) samples(count int, seq uint32) bool {
	return count < allSends || count < maxSends && seq%sampleEvery == 0
}

// transits gives [from][to] for the hosts of these records.
func (s *sightings) transits(records []*Record) [][]transit {
	all := make([][]transit, len(records))
	index := map[wire.ID][]int{}
	for i, r := range records {
		all[i] = make([]transit, len(records))
		index[r.ID] = append(index[r.ID], i)
	}
	for to, receipts := range s.receipts {
		for frame, received := range receipts {
			at, known := s.sends[frame]
			if !known {
				continue
			}
			for _, from := range index[frame.by] {
				if records[from].Nonce == frame.nonce {
					all[from][to].add(received.Sub(at))
				}
			}
		}
	}
	return all
}

func (t *transit) add(took time.Duration) {
	if t.frames == 0 || took < t.least {
		t.least = took
	}
	t.frames++
}

// clocks sets the hosts' clocks by each other's, from the first record on to those that
// it has exchanged the most frames with.
func clocks(records []*Record, transits [][]transit) []clock {
	out := make([]clock, len(records))
	for i, r := range records {
		out[i].offset = r.Wall.Sub(r.Now)
	}
	for set := []int{0}; ; {
		from, to, most := 0, 0, 0
		for _, i := range set {
			for j := range records {
				if n := transits[i][j].frames + transits[j][i].frames; n > most && !slices.Contains(set, j) {
					from, to, most = i, j, n
				}
			}
		}
		if most == 0 {
			return out
		}
		ahead, within := lead(transits[from][to], transits[to][from])
		c := &out[to]
		c.corrected = out[from].corrected - ahead
		c.offset += c.corrected
		c.within, c.frames = within, most
		set = append(set, to)
	}
}

// lead says how far the second host's wall clock is ahead of the first's, by the frames
// there and back. Of frames one way only one thing is known: none came before it was sent.
func lead(there, back transit) (ahead, within time.Duration) {
	switch {
	case there.frames > 0 && back.frames > 0:
		return (there.least - back.least) / 2, max((there.least+back.least)/2, 0)
	case there.frames > 0:
		return min(there.least, 0), 0
	case back.frames > 0:
		return max(-back.least, 0), 0
	}
	return 0, 0
}
