package attack

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Ledger is what somebody says about singleton jobs, in the format of internal/jobs, whose own
// encoder refuses most of what is said here.
type Ledger struct {
	Fence  uint64
	Forgot uint64 // seconds since 1970
	Jobs   []Job  // sorted by name
}

// Job is one job's entry, with one run.
type Job struct {
	Name     string
	Floor    uint64 // seconds since 1970
	Schedule uint64
	Version  uint32 // of the switch; 0: nobody has touched it
	IsPaused bool

	Slot    uint64 // of the run, seconds since 1970
	Epoch   uint64
	Owner   wire.ID
	Claimed uint64 // milliseconds since 1970
	Timeout uint32 // seconds
}

// Bytes encodes a ledger. All jobs have one owner, that of the first.
func (l Ledger) Bytes() []byte {
	b := []byte{1}
	b = binary.AppendUvarint(b, l.Fence)
	b = binary.AppendUvarint(b, l.Forgot)
	if len(l.Jobs) == 0 {
		b = append(b, 0, 0)
		return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	}
	b = append(append(b, 1), l.Jobs[0].Owner[:]...)
	b = binary.AppendUvarint(b, uint64(len(l.Jobs)))
	for _, j := range l.Jobs {
		b = j.append(b)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// claimed is the phase of a run that is written down, and no more.
const claimed = 1

func (j Job) append(b []byte) []byte {
	b = append(append(b, byte(len(j.Name))), j.Name...)
	b = binary.AppendUvarint(b, j.Floor)
	b = binary.BigEndian.AppendUint64(b, j.Schedule)
	b = binary.AppendUvarint(b, uint64(j.Version))
	if j.Version > 0 {
		paused := byte(0)
		if j.IsPaused {
			paused = 1
		}
		b = binary.AppendUvarint(append(b, paused), j.Claimed)
	}
	b = append(b, 1) // runs
	b = binary.AppendUvarint(b, j.Slot)
	b = append(b, claimed, 0)
	b = binary.AppendUvarint(b, j.Epoch)
	b = append(b, 0, 0, 0) // the first owner; no attempt; no exit
	b = binary.AppendUvarint(b, j.Claimed)
	b = append(b, 0, 0) // never started, never ended
	return binary.AppendUvarint(b, uint64(j.Timeout))
}

// year9999 is the last second that a ledger can name, 9999-12-31 23:59:59 UTC.
var year9999 = uint64(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix())

// ledger is one of the lies that would spoil a ledger for good, as a claim's bytes or a part's.
func (f *Forger) ledger(e wire.Epoch) []byte {
	now := uint64(time.Now().Unix())
	job := Job{Name: pick(f.Random, []string{"skip", "once", "all", "long", "-rf", "..", "a\nb", "junk"}),
		Slot: now, Floor: now, Owner: f.member(), Epoch: e.Counter, Claimed: now * 1000, Timeout: 60}
	l := Ledger{Fence: e.Counter}
	switch f.Random.IntN(7) {
	case 0:
		l.Forgot = year9999
	case 1:
		job.Slot, job.Floor, job.Claimed = year9999, year9999, year9999*1000
	case 2:
		job.Version, job.IsPaused = 1<<32-1, true
	case 3:
		l.Fence = e.Counter + 1<<20
	case 4:
		job.Epoch = e.Counter + 1<<20
	case 5:
		job.Timeout = 31 * 24 * 3600 // the longest
	}
	l.Jobs = []Job{job}
	return l.Bytes()
}
