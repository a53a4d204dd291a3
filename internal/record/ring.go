package record

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// Ring is the flight recorder: the last steps of one Node, in memory of one size. Each
// step is appended; what is oldest is overwritten, a segment at a time. It belongs to
// whoever steps the Node:
//
//	if r.IsDue(event) { r.Begin(…) }
//	effects := node.Step(now, event)
//	r.Note(now, event, effects)
//
// Invariant: each segment in segments is whole, and begins with a picture.
type Ring struct {
	memory   []byte
	end      int64     // bytes ever written; the next goes to memory[end % len(memory)]
	segments []segment // oldest first; the last is open
	dropped  uint64    // segments before these
	limit    int64     // of the open segment
	isSmall  bool      // the memory is too small for pictures of this node

	steps   uint64 // noted, ever
	last    time.Time
	frames  frames
	hashing hashing
	step    []byte // one step, reused
}

// segment is where one begins in the bytes ever written, and ends.
type segment struct{ from, to int64 }

const (
	// segmentsInRing is about how many segments a full ring has: as much of its memory is
	// lost when the oldest goes.
	segmentsInRing = 64
	// perPicture is how many times larger than its picture a segment is at least, so that
	// pictures take a fifth of the memory at most.
	perPicture = 4
	// MinMemory is the least for a Ring: segments of 16 KiB.
	MinMemory = segmentsInRing << 14
)

// start is what a segment begins with.
type start struct {
	Number    uint64    // of its first step; the first step that the Node took is 1
	Now, Wall time.Time // the Node's clock, and the wall clock at that instant
	Chance    []byte    // state of the Node's source of chance
	Picture   []byte
}

// NewRing makes a Ring of this memory, which is touched as it fills.
func NewRing(memory []byte) *Ring {
	return &Ring{memory: memory, segments: make([]segment, 0, 2*segmentsInRing)}
}

// IsDue reports whether a segment must begin before this event.
func (r *Ring) IsDue(ev election.Event) bool {
	if len(r.segments) == 0 {
		return !r.isSmall
	}
	if open := r.segments[len(r.segments)-1]; open.to-open.from < r.limit {
		return false
	}
	_, belongsToTheLast := ev.(election.SaveFailed) // there is no picture before it
	return !belongsToTheLast
}

// Begin begins a segment with a picture of the Node and the state of its source of chance,
// as of the time now on its clock and wall on the wall.
func (r *Ring) Begin(now, wall time.Time, chance, picture []byte) {
	if len(picture) > len(r.memory)/(2*perPicture) {
		r.segments, r.isSmall = r.segments[:0], true
		return
	}
	s := start{Number: r.steps + 1, Now: now, Wall: wall, Chance: chance, Picture: picture}
	r.segments = append(r.segments, segment{r.end, r.end})
	r.frames.reset()
	r.last = now
	r.limit = max(int64(len(r.memory))/segmentsInRing, perPicture*int64(len(picture)))
	r.append(values.Append(nil, &s))
}

// Note appends a step.
func (r *Ring) Note(now time.Time, ev election.Event, effects []election.Effect) {
	r.steps++
	if len(r.segments) == 0 {
		return
	}
	b := binary.AppendVarint(r.step[:0], int64(now.Sub(r.last)))
	switch e := ev.(type) {
	case election.Tick:
		b = append(b, numberTick)
	case election.Received:
		b = r.frames.put(append(b, numberReceived), &e)
	default:
		rare := ev // a copy, so that only what is rare takes memory
		b = values.Append(b, &rare)
	}
	r.step = r.hashing.put(b, effects)
	r.last = now
	r.append(r.step)
}

// append writes to the open segment, over the oldest.
func (r *Ring) append(b []byte) {
	size := int64(len(r.memory))
	for len(r.segments) > 0 && r.segments[0].from+size < r.end+int64(len(b)) {
		r.segments = slices.Delete(r.segments, 0, 1)
		r.dropped++
	}
	if len(r.segments) == 0 {
		return // one step larger than the ring
	}
	n := copy(r.memory[r.end%size:], b)
	copy(r.memory, b[n:])
	r.end += int64(len(b))
	r.segments[len(r.segments)-1].to = r.end
}

// Segments gives the numbers of the segments that there are, of which the last goes on.
func (r *Ring) Segments() (first, end uint64) {
	return r.dropped, r.dropped + uint64(len(r.segments))
}

// AppendSegment writes a segment as it stands in a file behind dst, and reports whether
// it is still there.
func (r *Ring) AppendSegment(dst []byte, number uint64) ([]byte, bool) {
	if first, end := r.Segments(); number < first || number >= end {
		return dst, false
	}
	s := r.segments[number-r.dropped]
	dst = append(dst, markSegment)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.to-s.from))
	dst = append(dst, 0, 0, 0, 0)
	body := len(dst)
	size := int64(len(r.memory))
	from, to := s.from%size, s.to%size
	if from < to || s.from == s.to {
		dst = append(dst, r.memory[from:to]...)
	} else {
		dst = append(append(dst, r.memory[from:]...), r.memory[:to]...)
	}
	binary.BigEndian.PutUint32(dst[body-4:], crc32.Checksum(dst[body:], castagnoli))
	return dst, true
}
