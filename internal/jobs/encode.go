package jobs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/bully-agent/bully-agent/wire"
)

// A ledger as bytes, on disk and between hosts. Numbers are unsigned varints,
// unless it says otherwise.
//
//	1  version              1
//	   fence
//	   forgot
//	   owners               their number, then 16 bytes of each, sorted
//	   jobs                 their number, then of each, sorted by name:
//	     1  length of name, then the name
//	     floor
//	     8  schedule        big endian
//	     switch             its version; if not 0: 1 byte, 0 resumed, 1 paused, 2 resumed from now; at
//	     runs               their number, then of each, sorted by key:
//	       slot             less that of the run before
//	       1  bits          0–3 phase, 4 manual
//	       1  outcome
//	       epoch
//	       owner            its place among the owners
//	       1  attempt
//	       1  exit
//	       claimed
//	       started, ended   signed, less claimed; 0 for never, else one more
//	                        away from zero
//	       timeout
//	4  crc32c               Castagnoli, big endian, over all before it
//
// A claim is a ledger's bytes with one job and one run, whose floor is its slot.

// Limits of what is read. A pruned ledger is always within them.
const (
	MaxRuns    = KeepOpen + KeepEnded // of one job
	MaxEncoded = 1 << 19              // bytes of a ledger; 128 full jobs are 0.3 MiB
	MaxClaim   = 200                  // bytes of a claim
)

const formatVersion = 1

var (
	// ErrVersion is returned for the bytes of another version of the format.
	ErrVersion = errors.New("ledger is of another version")
	// ErrDamaged is returned for bytes that are not those that were written.
	ErrDamaged = errors.New("ledger is cut short or damaged")
	// ErrBounds is returned for a ledger that needs pruning before it is
	// written, or that nobody can have written.
	ErrBounds = errors.New("ledger is beyond its bounds")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append encodes the ledger onto b. It fails with ErrBounds unless Prune was
// called since the last Merge.
func (l *Ledger) Append(b []byte) ([]byte, error) {
	if len(l.entries) > MaxJobs {
		return b, fmt.Errorf("append ledger: %d jobs: %w", len(l.entries), ErrBounds)
	}
	start, owners := len(b), l.owners()
	b = append(b, formatVersion)
	b = binary.AppendUvarint(b, l.fence)
	b = binary.AppendUvarint(b, uint64(l.forgot))
	b = binary.AppendUvarint(b, uint64(len(owners)))
	for _, id := range owners {
		b = append(b, id[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(l.entries)))
	for i := range l.entries {
		e := &l.entries[i]
		if len(e.Runs) > MaxRuns || !IsName(e.Job) {
			return b[:start], fmt.Errorf("append ledger: job %q with %d runs: %w", e.Job, len(e.Runs), ErrBounds)
		}
		b = e.append(b, owners)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// owners are the hosts of all runs, sorted, each once.
func (l *Ledger) owners() []wire.ID {
	var all []wire.ID
	for i := range l.entries {
		for _, r := range l.entries[i].Runs {
			all = append(all, r.Owner)
		}
	}
	slices.SortFunc(all, wire.ID.Compare)
	return slices.Compact(all)
}

func (e *Entry) append(b []byte, owners []wire.ID) []byte {
	b = append(b, byte(len(e.Job)))
	b = append(b, e.Job...)
	b = binary.AppendUvarint(b, uint64(e.Floor))
	b = binary.BigEndian.AppendUint64(b, e.Schedule)
	b = binary.AppendUvarint(b, uint64(e.Switch.Version))
	if e.Switch.Version > 0 {
		b = append(b, bit(e.Switch.Paused)|bit(e.Switch.FromNow)<<1)
		b = binary.AppendUvarint(b, uint64(e.Switch.At))
	}
	b = binary.AppendUvarint(b, uint64(len(e.Runs)))
	var last Slot
	for _, r := range e.Runs {
		b = binary.AppendUvarint(b, uint64(r.Slot-last))
		b, last = r.append(b, owners), r.Slot
	}
	return b
}

func (r Run) append(b []byte, owners []wire.ID) []byte {
	owner, _ := slices.BinarySearchFunc(owners, r.Owner, wire.ID.Compare)
	b = append(b, byte(r.Phase)|bit(r.Manual)<<4, byte(r.Outcome))
	b = binary.AppendUvarint(b, r.Epoch)
	b = binary.AppendUvarint(b, uint64(owner))
	b = append(b, r.Attempt, r.Exit)
	b = binary.AppendUvarint(b, uint64(r.Claimed))
	b = appendSince(b, r.Started, r.Claimed)
	b = appendSince(b, r.Ended, r.Claimed)
	return binary.AppendUvarint(b, uint64(r.Timeout))
}

// appendSince leaves zero for "never".
func appendSince(b []byte, at, claimed Millis) []byte {
	since := int64(at - claimed)
	switch {
	case at == 0:
		since = 0
	case since >= 0:
		since++
	default:
		since--
	}
	return binary.AppendVarint(b, since)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// Parse decodes what Append wrote. Bytes from a network or a disk can give an
// error, never more than MaxEncoded's worth of memory.
func Parse(b []byte) (*Ledger, error) {
	l, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("parse ledger: %w", err)
	}
	return l, nil
}

func parse(b []byte) (*Ledger, error) {
	switch {
	case len(b) < 1+4:
		return nil, ErrDamaged
	case b[0] != formatVersion:
		return nil, fmt.Errorf("version %d: %w", b[0], ErrVersion)
	case len(b) > MaxEncoded:
		return nil, fmt.Errorf("%d bytes: %w", len(b), ErrBounds)
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("checksum: %w", ErrDamaged)
	}
	in := reader{rest: body[1:]}
	l := in.ledger()
	if len(in.rest) > 0 {
		in.fail(ErrDamaged)
	}
	return l, in.err
}

// reader consumes bytes until something is wrong; from then on it gives zeros.
type reader struct {
	rest   []byte
	owners []wire.ID
	err    error
}

func (in *reader) fail(err error) {
	if in.err == nil {
		in.err = err
	}
	in.rest = nil
}

func (in *reader) bytes(n int) []byte {
	if n > len(in.rest) {
		in.fail(ErrDamaged)
		return make([]byte, n) // n is a small constant or a byte
	}
	b := in.rest[:n]
	in.rest = in.rest[n:]
	return b
}

func (in *reader) byte() byte { return in.bytes(1)[0] }

// number consumes an unsigned number that is at most highest.
func (in *reader) number(highest uint64) uint64 {
	v, n := binary.Uvarint(in.rest)
	switch {
	case n <= 0:
		in.fail(ErrDamaged)
		return 0
	case v > highest:
		in.fail(ErrBounds)
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

// since consumes what appendSince wrote. Overflow ends up out of bounds.
func (in *reader) since(claimed Millis) Millis {
	v, n := binary.Varint(in.rest)
	if n <= 0 {
		in.fail(ErrDamaged)
		return 0
	}
	in.rest = in.rest[n:]
	switch {
	case v == 0:
		return 0
	case v > 0:
		v--
	default:
		v++
	}
	return claimed + Millis(v)
}

func (in *reader) ledger() *Ledger {
	l := &Ledger{fence: in.number(math.MaxInt64), forgot: Slot(in.number(uint64(maxSlot)))}
	for range in.number(MaxJobs * MaxRuns) {
		in.owners = append(in.owners, wire.ID(in.bytes(len(wire.ID{}))))
		if n := len(in.owners); n > 1 && in.owners[n-2].Compare(in.owners[n-1]) >= 0 {
			in.fail(ErrBounds)
		}
		if in.err != nil {
			return nil
		}
	}
	last := ""
	for range in.number(MaxJobs) {
		e := in.entry()
		if last >= e.Job {
			in.fail(ErrBounds)
		}
		if in.err != nil {
			return nil
		}
		if last = e.Job; IsName(last) { // nobody has the others any more
			l.entries = append(l.entries, e)
		}
	}
	return l
}

func (in *reader) entry() Entry {
	e := Entry{Job: string(in.bytes(int(in.byte())))}
	if !isFormerName(e.Job) {
		in.fail(ErrBounds)
	}
	e.Floor = Slot(in.number(uint64(maxSlot)))
	e.Schedule = binary.BigEndian.Uint64(in.bytes(8))
	if e.Switch.Version = uint32(in.number(math.MaxUint32)); e.Switch.Version > 0 {
		state := in.byte()
		e.Switch.Paused, e.Switch.FromNow = state == 1, state == 2
		e.Switch.At = Millis(in.number(uint64(maxSlot) * 1000))
	}
	var last Slot
	for range in.number(MaxRuns) {
		r := in.run(last)
		if n := len(e.Runs); !r.valid() || n > 0 && e.Runs[n-1].Compare(r.Key) >= 0 {
			in.fail(ErrBounds)
		}
		if in.err != nil {
			return e
		}
		e.Runs, last = append(e.Runs, r), r.Slot
	}
	return e
}

func (in *reader) run(last Slot) Run {
	var r Run
	r.Slot = last + Slot(in.number(uint64(maxSlot)))
	bits := in.byte()
	r.Phase, r.Manual = Phase(bits&0x0f), bits>>4 == 1
	r.Outcome = Outcome(in.byte())
	r.Epoch = in.number(math.MaxInt64)
	if owner := in.number(MaxJobs * MaxRuns); owner < uint64(len(in.owners)) {
		r.Owner = in.owners[owner]
	} else {
		in.fail(ErrBounds)
	}
	r.Attempt, r.Exit = in.byte(), in.byte()
	r.Claimed = Millis(in.number(uint64(maxSlot) * 1000))
	r.Started, r.Ended = in.since(r.Claimed), in.since(r.Claimed)
	r.Timeout = uint32(in.number(math.MaxUint32))
	return r
}

// Append encodes the claim onto b: at most MaxClaim bytes.
func (c Claim) Append(b []byte) ([]byte, error) { return c.ledger().Append(b) }

func (c Claim) ledger() *Ledger {
	return &Ledger{entries: []Entry{{Job: c.Job, Floor: c.Run.Slot, Schedule: c.Schedule, Runs: []Run{c.Run}}}}
}

// ParseClaim decodes what Claim.Append wrote.
func ParseClaim(b []byte) (Claim, error) {
	if len(b) > MaxClaim {
		return Claim{}, fmt.Errorf("parse claim: %d bytes: %w", len(b), ErrBounds)
	}
	l, err := parse(b)
	if err == nil && (len(l.entries) != 1 || len(l.entries[0].Runs) != 1) {
		err = ErrBounds
	}
	if err != nil {
		return Claim{}, fmt.Errorf("parse claim: %w", err)
	}
	e := &l.entries[0]
	return Claim{Job: e.Job, Schedule: e.Schedule, Run: e.Runs[0]}, nil
}
