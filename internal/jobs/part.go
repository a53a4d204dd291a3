package jobs

import (
	"crypto/sha256"
	"encoding/binary"
)

// runsInPart is how many runs of one job go into one datagram: with the longest
// numbers and an owner each they are within MaxPayload.
const runsInPart = 12

// maxParts is how many parts a ledger has at most.
const maxParts = MaxJobs * ((MaxRuns + runsInPart - 1) / runsInPart)

// parts cuts a ledger into ledgers that fit into a datagram each: a job's runs,
// runsInPart at a time, each time with its floor. There is always one.
func (l *Ledger) parts() []*Ledger {
	var all []*Ledger
	for _, e := range l.entries {
		runs := e.Runs
		for {
			n := min(len(runs), runsInPart)
			e.Runs, runs = runs[:n], runs[n:]
			all = append(all, &Ledger{entries: []Entry{e}})
			if len(runs) == 0 {
				break
			}
		}
	}
	if len(all) == 0 {
		return []*Ledger{{}}
	}
	return all
}

// told is what others are told of the ledger.
func (l *Ledger) told() *Ledger { return &Ledger{entries: l.entries} }

// digest is the same for ledgers that know the same.
func (l *Ledger) digest() uint64 {
	sum := sha256.Sum256([]byte(l.told().mustAppend()))
	return binary.BigEndian.Uint64(sum[:8])
}

// mustAppend is Append for a ledger that was pruned.
func (l *Ledger) mustAppend() string {
	b, err := l.Append(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(b)
}
