package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/wire"
)

// The state file holds what must outlive the process: who this agent is, and
// the highest epoch counter. It is a durable.Slots of format "BLYS" and version 4,
// written with each save of the election before its next effect. The content:
//
//	offset  size  field
//	0       16    id
//	16      4     incarnation
//	20      8     highest epoch counter
//	28      8     counter of the promoted epoch
//	36      16    owner of the promoted epoch
//	52      1+n   cluster's name, with its length
//	53+n    8     counter of the epoch that was granted last
//	61+n    16    owner of the epoch that was granted last
//	77+n    8     longest promise, nanoseconds
//	85+n    4     roster's version
//	89+n    1     1 if the roster is formed, else 0
//	90+n    1     number of the roster's voters, v: at most 15
//	91+n    16·v  ids of the roster's voters
//	…       8     counter of the highest epoch that was accepted
//	…       16    owner of the highest epoch that was accepted
//	…       8     end of a hold-down by the wall clock, nanoseconds since 1970; 0: none
//	…       8     what was left of it when it was written, nanoseconds
//	…       1     1 in maintenance, else 0
//	…       16    its end, as that of a hold-down; zeros: an operator ends it
//	…       1+m   its reason, with the length
//
// Big endian. Version 1 ended with the cluster's name, version 2 with the voters, version 3
// with the hold-down; they are read, with zeros for the rest.
const (
	stateVersion = 4
	stateName    = "state"
	lockName     = "lock"
)

var stateFormat = durable.Format{Magic: "BLYS", Version: stateVersion}

// identity is the part of the state file that never changes.
type identity struct {
	ID      wire.ID
	Cluster string
}

// stateFile is the open state file of this agent's state directory. The
// directory's lock is held for as long as it is open.
type stateFile struct {
	dir   string
	lock  *os.File
	slots *durable.Slots
	identity
	saved       election.Saved
	hold        hold // not the election's: it has no wall clock
	maintenance maintenance
}

// openState locks the directory and reads the state, or makes a new identity
// where there is none. It changes nothing when it fails.
func openState(dir, cluster string) (*stateFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, noPlace(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &stateFile{dir: dir, lock: lock}
	if err := s.load(cluster); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	if err := durable.CheckDir(dir); err != nil {
		return nil, refusal("see --state-dir", "state directory: %w", err)
	}
	f, err := durable.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, noPlace(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := pidIn(f)
		f.Close()
		return nil, refusal("each agent needs a directory of its own: see --state-dir",
			"state directory %s: another agent uses it (pid %d)", dir, holder)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above; the lock itself is the kernel's
	}
	return f, nil
}

// pidIn reads what lockDir has written; 0: nothing that is a pid.
func pidIn(lock io.Reader) int {
	text, _ := io.ReadAll(io.LimitReader(lock, 32))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
	return pid
}

// Holder gives the pid of the agent that uses a state directory; false: none does, or this user may not ask. It is for an
// agent that cannot start anyway: one that starts at this moment could take the question for another agent.
func Holder(dir string) (pid int, isHeld bool) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, false
	}
	return pidIn(f), true
}

func (s *stateFile) load(cluster string) error {
	path := filepath.Join(s.dir, stateName)
	slots, slot, err := durable.OpenSlots(path, stateFormat)
	s.slots = slots
	if errors.Is(err, os.ErrNotExist) {
		s.identity = identity{ID: newID(), Cluster: cluster} // on disk with the first write
		return nil
	}
	return s.take(path, slot, err, cluster)
}

// take decodes what was read, and says why a start would be refused.
func (s *stateFile) take(path string, slot durable.Slot, err error, cluster string) error {
	if err == nil {
		err = s.decode(slot)
	}
	if err != nil {
		return refusal("", "state file %s: %w", path, err)
	}
	if s.Cluster != cluster {
		return refusal("give this agent another --state-dir, or the cluster's own name",
			"state directory %s belongs to cluster %q, not %q", s.dir, s.Cluster, cluster)
	}
	return nil
}

// CheckState says of settings, before a start, whether an agent would refuse to start with what
// its state directory holds. It changes nothing, and an agent may be running there. Where there
// is no state, or none that this process may read, it finds nothing; else the error is a *Refusal.
func CheckState(dir, cluster, name string, expect int) error {
	path := filepath.Join(dir, stateName)
	slot, err := durable.PeekSlot(path, stateFormat)
	var inTheWay *os.PathError
	if errors.As(err, &inTheWay) {
		return nil // the start says what is wrong with a path
	}
	s := &stateFile{dir: dir}
	if err := s.take(path, slot, err, cluster); err != nil {
		return hintDamaged(err, expect > 0, name)
	}
	return checkExpect(expect, s.saved.Roster)
}

// newID is a UUIDv4 (RFC 9562, 5.4).
func newID() wire.ID {
	var id wire.ID
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// write saves the state. After an error the disk still has the state before.
func (s *stateFile) write(saved election.Saved) error {
	if err := s.slots.Write(s.encode(saved)); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	s.saved = saved
	return nil
}

func (s *stateFile) encode(saved election.Saved) []byte {
	b := append([]byte(nil), s.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, saved.Incarnation)
	b = binary.BigEndian.AppendUint64(b, saved.MaxCounter)
	b = appendEpoch(b, saved.Promoted)
	b = append(b, byte(len(s.Cluster)))
	b = append(b, s.Cluster...)
	b = appendQuorum(b, saved)
	b = appendEpoch(b, saved.Accepted)
	return appendMaintenance(appendHold(b, s.hold), s.maintenance)
}

// appendQuorum writes what a voter must remember (quorum mode).
func appendQuorum(b []byte, saved election.Saved) []byte {
	roster := saved.Roster
	if len(roster.IDs) > wire.MaxVoters {
		panic(fmt.Sprintf("BUG: save a roster of %d voters", len(roster.IDs)))
	}
	b = appendEpoch(b, saved.Vote)
	b = binary.BigEndian.AppendUint64(b, uint64(saved.LongestPromise))
	b = binary.BigEndian.AppendUint32(b, roster.Version)
	formed := byte(0)
	if roster.Formed {
		formed = 1
	}
	b = append(b, formed, byte(len(roster.IDs)))
	for _, id := range roster.IDs {
		b = append(b, id[:]...)
	}
	return b
}

func appendEpoch(b []byte, e wire.Epoch) []byte {
	return append(binary.BigEndian.AppendUint64(b, e.Counter), e.Owner[:]...)
}

func epochAt(b []byte) wire.Epoch {
	return wire.Epoch{Counter: binary.BigEndian.Uint64(b), Owner: wire.ID(b[8:epochSize])}
}

// errSense is returned for a whole slot with content that no version wrote.
var errSense = errors.New("a slot with a valid checksum holds what is never written")

const (
	identitySize = 53 // length of the content up to the cluster's name
	quorumHead   = 38 // length of what follows the name, up to the voters
	epochSize    = 24
)

func (s *stateFile) decode(slot durable.Slot) error {
	b := slot.Content
	if len(b) < identitySize {
		return errSense
	}
	name := identitySize + int(b[identitySize-1])
	if name > len(b) {
		return errSense
	}
	copy(s.ID[:], b)
	s.saved.Incarnation = binary.BigEndian.Uint32(b[16:])
	s.saved.MaxCounter = binary.BigEndian.Uint64(b[20:])
	s.saved.Promoted = epochAt(b[28:])
	s.Cluster = string(b[identitySize:name])
	if slot.Version == 1 && name == len(b) {
		return nil
	}
	var err error
	if slot.Version == stateVersion {
		if b, s.maintenance, err = cutMaintenance(b, name+quorumHead); err != nil {
			return err
		}
	}
	switch voters := len(b) - epochSize - holdSize; {
	case slot.Version == 2:
		err = decodeQuorum(b[name:], &s.saved)
	case (slot.Version == 3 || slot.Version == stateVersion) && voters >= name:
		s.saved.Accepted = epochAt(b[voters:])
		if err = decodeQuorum(b[name:voters], &s.saved); err == nil {
			s.hold, err = decodeHold(b[voters+epochSize:], longestHold)
		}
	default:
		err = errSense
	}
	return err
}

// decodeQuorum reads what a voter must remember, all of b. What encode would not
// write is refused: a guessed vote or voter could break what the voter promised.
func decodeQuorum(b []byte, saved *election.Saved) error {
	if len(b) < quorumHead || len(b) != quorumHead+16*int(b[37]) {
		return errSense
	}
	promise, formed, voters := binary.BigEndian.Uint64(b[24:]), b[36], int(b[37])
	if promise > math.MaxInt64 || formed > 1 || voters > wire.MaxVoters {
		return errSense
	}
	saved.Vote = epochAt(b)
	saved.LongestPromise = time.Duration(promise)
	saved.Roster.Version = binary.BigEndian.Uint32(b[32:])
	saved.Roster.Formed = formed == 1
	for i := range voters {
		saved.Roster.IDs = append(saved.Roster.IDs, wire.ID(b[quorumHead+16*i:]))
	}
	return nil
}

func (s *stateFile) close() {
	if s.slots != nil {
		s.slots.Close()
	}
	s.lock.Close()
}
