package agent

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// Who this host is: a key that is made once, and a new host for each new key.

// machineIDFile is where a machine says which one it is. Tests have another.
var machineIDFile = "/etc/machine-id"

// thisMachine is the zero Machine where there is no machine-id, or none that this process may read.
func thisMachine() identity.Machine {
	text, _ := os.ReadFile(machineIDFile)
	return identity.MachineOf(text)
}

// Stopped is a state directory whose agent does not run, for commands about who this host is.
type Stopped struct {
	Dir     string
	Cluster string // of a state that is made
	Apart   *Apart // as at a start of the agent; nil: it keeps its rights
}

// ReadID gives the id of the host whose state directory that is. It changes nothing, and an agent may be running there.
// The error is fs.ErrNotExist where no key was made yet, as in a state of an earlier version, fs.ErrPermission where this
// process may not look, and a *Refusal for a state with which no agent would start here.
func ReadID(dir string) (wire.ID, error) {
	if inner := filepath.Join(dir, homeName); hasState(inner) {
		dir = inner
	}
	s, err := peekState(dir)
	if err == nil {
		err = s.check(s.Cluster, thisMachine())
	}
	if err == nil && s.private.IsZero() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return wire.ID{}, hintDamaged(err, false, "")
	}
	return s.ID, nil
}

func hasState(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, stateName))
	return err == nil
}

// isEmpty: there is no state in the directory, for certain.
func isEmpty(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, stateName))
	return errors.Is(err, fs.ErrNotExist) && !hasState(filepath.Join(dir, homeName))
}

// MakeID is ReadID, but makes directory and key where there are none. They are on disk when it returns.
func (h Stopped) MakeID() (id wire.ID, err error) {
	err = h.with(func(s *stateFile, isNew bool) error {
		err := s.begin(isNew, h.cluster(s, isNew), thisMachine())
		id = s.ID
		return err
	})
	return id, err
}

// NewID makes this host a new one, under another key. It asks before, with the id of now; its error is given back, and
// then nothing has changed.
func (h Stopped) NewID(ask func(old wire.ID) error) (old, id wire.ID, err error) {
	if isEmpty(h.Dir) {
		return old, id, noID(h.Dir)
	}
	err = h.with(func(s *stateFile, isNew bool) error {
		if isNew {
			return noID(s.dir)
		}
		old = s.ID
		if err := ask(old); err != nil {
			return err
		}
		err := s.renew(thisMachine())
		id = s.ID
		return err
	})
	return old, id, err
}

// KeepID has the directory be this machine's, under the id that it has.
func (h Stopped) KeepID() (id wire.ID, err error) {
	if isEmpty(h.Dir) {
		return id, noID(h.Dir)
	}
	err = h.with(func(s *stateFile, isNew bool) error {
		if isNew {
			return noID(s.dir)
		}
		s.machine = thisMachine()
		err := s.begin(false, s.Cluster, s.machine) // a state of an earlier version has no id to keep
		if err == nil {
			err = s.write(s.saved)
		}
		id = s.ID
		return err
	})
	return id, err
}

func noID(dir string) error {
	return refusal("bully-agent id makes one, as the first start does", "state directory %s: there is no id yet", dir)
}

// cluster is whose the state is to be: a command about the id looks at no other cluster.
func (h Stopped) cluster(s *stateFile, isNew bool) string {
	if isNew {
		return h.Cluster
	}
	return s.Cluster
}

// with opens the state as a start of the agent would, for as long as do takes.
func (h Stopped) with(do func(s *stateFile, isNew bool) error) error {
	place, err := openHome(h.Dir, h.Apart)
	if err != nil {
		return inUse(err)
	}
	defer place.close()
	if h.Apart != nil {
		if err := h.Apart.GiveUp(); err != nil {
			return err
		}
	}
	s, isNew, err := lockState(place.dir)
	if err != nil {
		return hintDamaged(inUse(err), false, "")
	}
	defer s.close()
	return do(s, isNew)
}

// inUse has a refusal say what to do about an agent that runs.
func inUse(err error) error {
	var refused *Refusal
	if errors.As(err, &refused) && errors.Is(err, errInUse) {
		refused.Hint = "stop that agent first"
	}
	return err
}

// renew makes this host a new one, with a key that nothing was said under. Both slots have it on disk when renew
// returns, so that a slot that is lost later brings no former key back.
func (s *stateFile) renew(here identity.Machine) error {
	private, err := identity.Generate(rand.Reader)
	if err != nil {
		return err
	}
	former := s.ID
	s.private, s.ID, s.machine = private, private.Public().ID(), here
	saved := bequeathed(s.saved, former, s.ID)
	for range 2 {
		if err := s.write(saved); err != nil {
			return refusal("the state directory must be writable", "%w", err)
		}
	}
	return nil
}

// bequeathed is what a host's state gives to a new id of that host. The counter goes over, so that no token comes twice,
// and what is not the election's: a hook that is due, hold-down, maintenance. Vote and roster are the former id's alone.
//
//   - A vote was for an epoch that may have come into force, and nothing else on this disk need say so (M23): it counts as
//     accepted, and nobody is granted its counter any more.
//   - What this host accepted as its own it still has led in itself.
//   - The longest promise stays, and is kept as after a restart (M5): the former id's grants may bind others yet.
func bequeathed(saved election.Saved, former, id wire.ID) election.Saved {
	if saved.Vote.Counter > saved.Accepted.Counter {
		saved.Accepted = saved.Vote
	}
	if !former.IsZero() && saved.Accepted.Owner == former {
		saved.Accepted.Owner = id
	}
	saved.Vote, saved.Roster = wire.Epoch{}, election.Roster{}
	return saved
}
