package agent

import (
	"crypto/rand"
	"os"

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
