package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// The state file holds what must outlive the process: who this agent is, and
// the highest epoch counter. It has two slots of one page each, written
// alternately: a write that power loss tears spoils one, and the other still
// has the state before. A slot:
//
//	offset  size  field
//	0       4     "BLYS"
//	4       2     format version, 3
//	6       2     length of the slot's content with the checksum
//	8       8     write number; the valid slot with the higher one counts
//	16      16    id
//	32      4     incarnation
//	36      8     highest epoch counter
//	44      8     counter of the promoted epoch
//	52      16    owner of the promoted epoch
//	68      1+n   cluster's name, with its length
//	69+n    8     counter of the epoch that was granted last
//	77+n    16    owner of the epoch that was granted last
//	93+n    8     longest promise, nanoseconds
//	101+n   4     roster's version
//	105+n   1     1 if the roster is formed, else 0
//	106+n   1     number of the roster's voters, v: at most 15
//	107+n   16·v  ids of the roster's voters
//	…       8     counter of the highest epoch that was accepted
//	…       16    owner of the highest epoch that was accepted
//	…       8     end of a hold-down by the wall clock, nanoseconds since 1970; 0: none
//	…       8     what was left of it when it was written, nanoseconds
//	…       4     CRC32C of all before
//
// Big endian. Each write is synced before the next effect of the election.
// Version 1 ended with the cluster's name, version 2 with the voters; they are
// read, with zeros for the rest.
const (
	slotSize     = 4096
	stateVersion = 3
	stateName    = "state"
	lockName     = "lock"
)

var slotMagic = []byte("BLYS")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is the part of the state file that never changes.
type identity struct {
	ID      wire.ID
	Cluster string
}

// stateFile is the open state file of this agent's state directory. The
// directory's lock is held for as long as it is open.
type stateFile struct {
	dir    string
	lock   *os.File
	file   *os.File
	number uint64 // of the last write
	identity
	saved election.Saved
	hold  hold // not the election's: it has no wall clock
}

// openState locks the directory and reads the state, or makes a new identity
// where there is none. It changes nothing when it fails.
func openState(dir, cluster string) (*stateFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, refusal("the directory must be one that this user may write: see --state-dir", "state directory: %w", err)
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
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, refusal("the directory must be one that this user may write: see --state-dir", "state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		return nil, refusal("each agent needs a directory of its own: see --state-dir",
			"state directory %s: another agent uses it (pid %s)", dir, bytes.TrimSpace(holder))
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above; the lock itself is the kernel's
	}
	return f, nil
}

func (s *stateFile) load(cluster string) error {
	path := filepath.Join(s.dir, stateName)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		s.identity = identity{ID: newID(), Cluster: cluster} // on disk with the first write
		return nil
	}
	if err != nil {
		return refusal("", "state file: %w", err)
	}
	if err := s.decode(content); err != nil {
		return refusal("", "state file %s: %w", path, err)
	}
	if s.Cluster != cluster {
		return refusal("give this agent another --state-dir, or the cluster's own name",
			"state directory %s belongs to cluster %q, not %q", s.dir, s.Cluster, cluster)
	}
	s.file, err = os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return refusal("", "state file: %w", err)
	}
	return nil
}

// create makes the file of a new identity. It gets its name only when it is
// whole, and the directory is synced once, here.
func (s *stateFile) create(path string) error {
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	slot := s.encode(s.number, s.saved)
	_, err = f.WriteAt(slot, int64(s.number%2*slotSize))
	if err := errors.Join(err, f.Truncate(2*slotSize), f.Sync()); err != nil {
		f.Close()
		return errors.Join(err, os.Remove(fresh))
	}
	s.file = f
	return errors.Join(os.Rename(fresh, path), syncDir(s.dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// newID is a UUIDv4 (RFC 9562, 5.4).
func newID() wire.ID {
	var id wire.ID
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// write puts the state into the slot that does not hold the present one and
// syncs it. After an error the slot's content is unknown, the other one still
// holds the state before, and the next write tries again.
func (s *stateFile) write(saved election.Saved) error {
	slot := s.encode(s.number+1, saved)
	at := int64((s.number + 1) % 2 * slotSize)
	if err := s.reopen(); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	_, err := s.file.WriteAt(slot, at)
	if err == nil {
		err = unix.Fdatasync(int(s.file.Fd()))
	}
	if err != nil {
		// After a failed sync the kernel may call the page clean though it is
		// not on disk: a fresh descriptor must write it again.
		s.file.Close()
		s.file = nil
		return fmt.Errorf("write state: %w", err)
	}
	s.number++
	s.saved = saved
	return nil
}

func (s *stateFile) reopen() (err error) {
	if s.file != nil {
		return nil
	}
	path := filepath.Join(s.dir, stateName)
	s.file, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) && s.number == 0 {
		return s.create(path)
	}
	return err
}

func (s *stateFile) encode(number uint64, saved election.Saved) []byte {
	b := make([]byte, 8, slotSize)
	copy(b, slotMagic)
	binary.BigEndian.PutUint16(b[4:], stateVersion)
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, s.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, saved.Incarnation)
	b = binary.BigEndian.AppendUint64(b, saved.MaxCounter)
	b = binary.BigEndian.AppendUint64(b, saved.Promoted.Counter)
	b = append(b, saved.Promoted.Owner[:]...)
	b = append(b, byte(len(s.Cluster)))
	b = append(b, s.Cluster...)
	b = appendQuorum(b, saved)
	b = appendEpoch(b, saved.Accepted)
	b = appendHold(b, s.hold)
	binary.BigEndian.PutUint16(b[6:], uint16(len(b)+4))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// appendQuorum writes what a voter must remember (quorum mode).
func appendQuorum(b []byte, saved election.Saved) []byte {
	roster := saved.Roster
	if len(roster.IDs) > wire.MaxVoters {
		panic(fmt.Sprintf("BUG: save a roster of %d voters", len(roster.IDs)))
	}
	b = binary.BigEndian.AppendUint64(b, saved.Vote.Counter)
	b = append(b, saved.Vote.Owner[:]...)
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

var (
	errCorrupt = errors.New("no slot has a valid checksum")
	errFuture  = errors.New("written by a newer version of bully-agent")
	errSense   = errors.New("a slot with a valid checksum holds what is never written")
)

// decode takes the newer of the valid slots. Only a slot that was torn, and so
// has a wrong checksum, may be passed over for the state before: what a whole
// slot says was on disk, and somebody may rely on it.
func (s *stateFile) decode(content []byte) error {
	found := false
	for at := 0; at < 2*slotSize; at += slotSize {
		if at >= len(content) {
			break
		}
		slot, err := decodeSlot(content[at:min(at+slotSize, len(content))])
		if err != nil && !errors.Is(err, errCorrupt) {
			return err
		}
		if err == nil && (!found || slot.number > s.number) {
			found = true
			s.number, s.identity, s.saved, s.hold = slot.number, slot.identity, slot.saved, slot.hold
		}
	}
	if !found {
		return errCorrupt
	}
	return nil
}

const (
	slotHead   = 69 // length of a slot up to the cluster's name
	quorumHead = 38 // length of what follows the name, up to the voters
	epochSize  = 24
)

func decodeSlot(b []byte) (stateFile, error) {
	var s stateFile
	if len(b) < slotHead+4 || !bytes.Equal(b[:4], slotMagic) {
		return s, errCorrupt
	}
	length := int(binary.BigEndian.Uint16(b[6:]))
	if length < slotHead+4 || length > len(b) {
		return s, errCorrupt
	}
	b = b[:length]
	if crc32.Checksum(b[:length-4], castagnoli) != binary.BigEndian.Uint32(b[length-4:]) {
		return s, errCorrupt
	}
	version := binary.BigEndian.Uint16(b[4:])
	if version > stateVersion {
		return s, errFuture
	}
	end, tail := slotHead+int(b[68]), length-4
	if end > tail {
		return s, errSense
	}
	s.number = binary.BigEndian.Uint64(b[8:])
	copy(s.ID[:], b[16:])
	s.saved.Incarnation = binary.BigEndian.Uint32(b[32:])
	s.saved.MaxCounter = binary.BigEndian.Uint64(b[36:])
	s.saved.Promoted.Counter = binary.BigEndian.Uint64(b[44:])
	copy(s.saved.Promoted.Owner[:], b[52:])
	s.Cluster = string(b[slotHead:end])
	if version == 1 && end == tail {
		return s, nil
	}
	var err error
	switch voters := tail - epochSize - holdSize; {
	case version == 2:
		err = decodeQuorum(b[end:tail], &s.saved)
	case version == stateVersion && voters >= end:
		s.saved.Accepted = epochAt(b[voters:])
		if err = decodeQuorum(b[end:voters], &s.saved); err == nil {
			s.hold, err = decodeHold(b[voters+epochSize : tail])
		}
	default:
		err = errSense
	}
	return s, err
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
	saved.Vote.Counter = binary.BigEndian.Uint64(b)
	copy(saved.Vote.Owner[:], b[8:])
	saved.LongestPromise = time.Duration(promise)
	saved.Roster.Version = binary.BigEndian.Uint32(b[32:])
	saved.Roster.Formed = formed == 1
	for i := range voters {
		saved.Roster.IDs = append(saved.Roster.IDs, wire.ID(b[quorumHead+16*i:]))
	}
	return nil
}

func (s *stateFile) close() {
	if s.file != nil {
		s.file.Close()
	}
	s.lock.Close()
}
