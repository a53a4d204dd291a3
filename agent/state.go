package agent

import (
	"bytes"
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
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// The state file holds what must outlive the process: who this agent is, what it has voted, and the highest epoch
// counter. Key and votes are in one record, so that no key comes back without its votes. It is a durable.Slots of format
// "BLYS" and version 5, written with each save of the election before its next effect. The content:
//
//	offset  size  field
//	0       32    private key, of which the id is computed
//	32      16    hash of the machine-id, see identity.Machine; zeros: none
//	48      4     incarnation
//	52      8     highest epoch counter
//	60      8     counter of the promoted epoch
//	68      16    owner of the promoted epoch
//	84      1+n   cluster's name, with its length
//	85+n    8     counter of the epoch that was granted last
//	93+n    16    owner of the epoch that was granted last
//	109+n   8     longest promise, nanoseconds
//	117+n   4     roster's version
//	121+n   1     1 if the roster is formed, else 0
//	122+n   1     number of the roster's voters, v: at most 15
//	123+n   16·v  ids of the roster's voters
//	…       8     counter of the highest epoch that was accepted
//	…       16    owner of the highest epoch that was accepted
//	…       8     end of a hold-down by the wall clock, nanoseconds since 1970; 0: none
//	…       8     what was left of it when it was written, nanoseconds
//	…       1     1 in maintenance, else 0
//	…       16    its end, as that of a hold-down; zeros: an operator ends it
//	…       1+m   its reason, with the length
//
// Big endian. Version 4 had an id of chance, 16 bytes, in the place of key and machine. It is read, and renew makes the present
// version of it; those before were never released.
const (
	stateVersion  = 5
	formerVersion = 4
	stateName     = "state"
	lockName      = "lock"
)

var stateFormat = durable.Format{Magic: "BLYS", Version: stateVersion}

// stateFile is the open state file of this agent's state directory. The
// directory's lock is held for as long as it is open.
//
// Invariant: ID is that of private, except between decode of an earlier version and renew, when there is no key.
type stateFile struct {
	dir         string
	lock        *os.File
	slots       *durable.Slots
	private     identity.Private
	ID          wire.ID
	machine     identity.Machine // that the directory belongs to
	Cluster     string
	saved       election.Saved
	hold        hold // not the election's: it has no wall clock
	maintenance maintenance
}

// openState locks the directory and reads the state, or makes a key where there is no state: that is on disk when
// openState returns. It changes nothing when it refuses what it finds.
func openState(dir, cluster string, here identity.Machine) (*stateFile, error) {
	s, isNew, err := lockState(dir)
	if err != nil {
		return nil, err
	}
	if err := s.begin(isNew, cluster, here); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// lockState locks the directory, and reads the state if there is one.
func lockState(dir string) (s *stateFile, isNew bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, noPlace(dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, false, err
	}
	s = &stateFile{dir: dir, lock: lock}
	if isNew, err = s.load(); err != nil {
		s.close()
		return nil, false, err
	}
	return s, isNew, nil
}

// begin has the state be that of this cluster's host on this machine.
func (s *stateFile) begin(isNew bool, cluster string, here identity.Machine) error {
	if isNew {
		s.Cluster = cluster
		return s.renew(here)
	}
	if err := s.check(cluster, here); err != nil {
		return err
	}
	s.Cluster = cluster // on disk with the next write
	if s.private.IsZero() {
		return s.renew(here)
	}
	if s.machine.IsZero() {
		s.machine = here // on disk with the next write
	}
	return nil
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
			"state directory %s: %w (pid %d)", dir, errInUse, holder)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above; the lock itself is the kernel's
	}
	return f, nil
}

// errInUse is returned where an agent has the directory's lock.
var errInUse = errors.New("another agent uses it")

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

// load reads the state, and reports whether there is none. Nothing but that makes a key: a state that cannot be read may
// have voted.
func (s *stateFile) load() (isNew bool, err error) {
	path := filepath.Join(s.dir, stateName)
	slots, slot, err := durable.OpenSlots(path, stateFormat)
	s.slots = slots
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err == nil {
		err = durable.CheckPrivate(path)
	}
	if err == nil {
		err = s.decode(slot)
	}
	return false, badState(path, err)
}

// badState is why a start would be refused for what the file holds, or who may read it; nil if err is.
func badState(path string, err error) error {
	var open *durable.ReadableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &open):
		return refusal(fmt.Sprintf("chmod 600 %s; if somebody else may have read it, bully-agent id new makes another key", path),
			"state file %s: %w, and it holds this host's private key", path, err)
	}
	return refusal("", "state file %s: %w", path, err)
}

// hasLived: an agent has run with this state. One that bully-agent id has made may precede the settings, and so binds to no
// cluster.
func (s *stateFile) hasLived() bool { return s.saved.Incarnation > 0 }

// check refuses the state of another cluster, of another machine, and of an earlier life than this host has had.
func (s *stateFile) check(cluster string, here identity.Machine) error {
	if s.Cluster != cluster && s.hasLived() {
		return refusal("give this agent another --state-dir, or the cluster's own name",
			"state directory %s belongs to cluster %q, not %q", s.dir, s.Cluster, cluster)
	}
	if s.machine.IsAnother(here) {
		return refusal("if that host lives on, or this is a backup: bully-agent id new; if this is that host, on another machine now: bully-agent id keep",
			"state directory %s: this directory was copied from another machine", s.dir)
	}
	if later := s.laterLife(); later > 0 {
		return olderState(s.saved.Incarnation, later)
	}
	return nil
}

// CheckState says of settings, before a start, whether an agent would refuse to start with what
// its state directory holds. It changes nothing, and an agent may be running there. Where there
// is no state, or none that this process may read, it finds nothing; else the error is a *Refusal.
func CheckState(dir, cluster, name string, expect int, hosts identity.Hosts) error {
	s, err := peekState(dir)
	var inTheWay *os.PathError
	if errors.As(err, &inTheWay) {
		return nil // the start says what is wrong with a path
	}
	if err == nil {
		err = s.check(cluster, thisMachine())
	}
	if err != nil {
		return hintDamaged(err, expect > 0, name)
	}
	if s.private.IsZero() {
		return nil // a new id has no roster
	}
	if err := checkExpect(expect, s.saved.Roster); err != nil {
		return err
	}
	return checkHosts(hosts, s.ID, s.saved.Roster)
}

// peekState reads a state that an agent may be writing meanwhile: for people who ask, never to start with.
func peekState(dir string) (*stateFile, error) {
	path := filepath.Join(dir, stateName)
	slot, err := durable.PeekSlot(path, stateFormat)
	var inTheWay *os.PathError
	if errors.As(err, &inTheWay) {
		return nil, err
	}
	s := &stateFile{dir: dir}
	if err == nil {
		err = s.decode(slot)
	}
	return s, badState(path, err)
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
	key := s.private.Bytes()
	b := append(key[:], s.machine[:]...)
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
	selfSize   = 48 // length of the content up to the incarnation
	formerSize = 16 // that of version 4
	nameHead   = 37 // length of what follows, up to the cluster's name
	quorumHead = 38 // length of what follows the name, up to the voters
	epochSize  = 24
)

func (s *stateFile) decode(slot durable.Slot) error {
	b, err := s.cutSelf(slot)
	if err != nil || len(b) < nameHead {
		return errSense
	}
	name := nameHead + int(b[nameHead-1])
	if name > len(b) {
		return errSense
	}
	s.saved.Incarnation = binary.BigEndian.Uint32(b)
	s.saved.MaxCounter = binary.BigEndian.Uint64(b[4:])
	s.saved.Promoted = epochAt(b[12:])
	s.Cluster = string(b[nameHead:name])
	if b, s.maintenance, err = cutMaintenance(b, name+quorumHead); err != nil {
		return err
	}
	voters := len(b) - epochSize - holdSize
	s.saved.Accepted = epochAt(b[voters:])
	if err = decodeQuorum(b[name:voters], &s.saved); err == nil {
		s.hold, err = decodeHold(b[voters+epochSize:], longestHold)
	}
	return err
}

// cutSelf takes who this host is off the content, and gives the rest.
func (s *stateFile) cutSelf(slot durable.Slot) (rest []byte, err error) {
	b := slot.Content
	switch {
	case slot.Version == formerVersion && len(b) >= formerSize:
		s.ID = wire.ID(b[:formerSize])
		return b[formerSize:], nil
	case slot.Version <= formerVersion || len(b) < selfSize:
		return nil, errSense
	}
	if s.private = identity.FromBytes([identity.Size]byte(b[:identity.Size])); s.private.IsZero() {
		return nil, errSense
	}
	s.ID = s.private.Public().ID()
	s.machine = identity.Machine(b[identity.Size:selfSize])
	return b[selfSize:], nil
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
