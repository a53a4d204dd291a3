package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Who may vote, where it is not simply all from the beginning to the end: more voters
// than expect, an expect that changes, and disks that are lost, any number at any time.

// drawVoters draws what quorum mode may have.
func (u *unusual) drawVoters() {
	switch u.rng.IntN(12) {
	case 0:
		u.surplus = 1 + u.rng.IntN(2)
	case 1:
		u.grows = 1
	case 2:
		u.grows = -1
	}
}

// castUnusual gives the expect that goes with it. It stays above half of the voters:
// docs/quorum.md: "expect is the number of all hosts that vote, … With six hosts and expect = 3,
// two groups that have never met could each form a roster."
func (w *World) castUnusual() {
	u := &w.unusual
	voters := w.votersByPart()
	expect := len(voters) - u.surplus
	if u.grows > 0 {
		expect--
	}
	if w.mode != Quorum || expect < 3 || u.grows < 0 && expect < 4 || 2*expect <= len(voters) {
		u.surplus, u.grows = 0, 0
		return
	}
	for _, m := range w.machines {
		m.cfg.Expect = expect
	}
	switch {
	case u.surplus > 0:
		u.has = append(u.has, SurplusVoters)
	case u.grows > 0:
		u.newcomer = pick(u.rng, voters...)
		u.has = append(u.has, ExpectRises)
	case u.grows < 0:
		u.has = append(u.has, ExpectFalls)
	}
}

func (w *World) votersByPart() []*machine {
	var voters []*machine
	for _, m := range w.machines {
		if m.cfg.Part != election.Observer && m.copyOf == nil {
			voters = append(voters, m)
		}
	}
	return voters
}

// planChangeOfExpect lets an operator change expect by one, once the roster is formed.
func (w *World) planChangeOfExpect() {
	u := &w.unusual
	if u.grows == 0 {
		return
	}
	w.after(w.lasts/8+u.upTo(w.lasts/2), func() {
		switch {
		case !w.raging:
		case !w.isRosterFormed():
			w.planChangeOfExpect()
		case u.grows < 0 && !w.forgetAny():
			w.planChangeOfExpect()
		default:
			w.changeExpect()
		}
	})
}

// forgetAny takes a voter out of the roster; it goes on running.
func (w *World) forgetAny() bool {
	for _, m := range w.machines {
		if m.isUp() && m.state == election.Lead {
			target := pick(w.unusual.rng, w.votersByPart()...)
			if target == m {
				return false
			}
			w.fired(OpForget)
			w.command(m, election.Command{Verb: election.Forget, Force: true, To: target.id, Token: m.forgetting(target.id)})
			return true
		}
	}
	return false
}

// changeExpect restarts host after host with the new number.
func (w *World) changeExpect() {
	u := &w.unusual
	wait := time.Duration(0)
	for _, m := range w.machines {
		wait += u.upTo(pick(u.rng, 200*time.Millisecond, 3*time.Second))
		w.after(wait, func() {
			if !w.raging {
				return
			}
			m.cfg.Expect += u.grows
			w.say(m, "expect is %d from now on", m.cfg.Expect)
			if m != u.newcomer {
				w.kill(m, Crash)
			}
			w.after(u.upTo(time.Second), func() { w.boot(m) })
		})
	}
}

// refusesExpect: docs/quorum.md: "a host whose expect differs by more from the roster on its
// disk does not start."
func (w *World) refusesExpect(m *machine) bool {
	voters := len(m.roster())
	if w.unusual.grows == 0 || voters == 0 || (m.cfg.Expect-voters <= 1 && voters-m.cfg.Expect <= 1) {
		return false
	}
	w.say(m, "does not start: expect is %d, and the roster has %d voters", m.cfg.Expect, voters)
	return true
}

// loseDisks loses the state directories of some hosts, running or not.
func (w *World) loseDisks(m *machine) {
	u := &w.unusual
	hosts := []*machine{m}
	if u.oneIn(3) {
		hosts = slices.Clone(w.machines)
		u.rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		hosts = hosts[:1+u.rng.IntN(len(hosts))]
	}
	for _, m := range hosts {
		if !w.raging || m.copyOf != nil || m.starting || w.nearEnd { // a new node refuses a jump of its cluster's counters (R3)
			continue
		}
		w.kill(m, Crash)
		w.loseDisk(m)
		w.after(u.upTo(3*time.Second), func() { w.boot(m) })
	}
}

// loseDisk loses a state directory: its host comes back as somebody else.
func (w *World) loseDisk(m *machine) {
	w.fired(Wiped)
	w.wipes++
	if w.mode == Quorum && !slices.ContainsFunc(w.machines, func(m *machine) bool { return m.disk.state.Roster.Formed }) {
		w.fired(WipedUnformed)
	}
	w.hadRoster = w.hadRoster || len(m.roster()) > 0
	w.lostID = m.id
	w.buryID(m)
	m.wiped++
	m.former = append(m.former, m.id)
	m.id = w.newID(m)
	w.newInLists()
	w.forgetHooks(m)
	m.disk, m.accepted = disk{}, wire.Epoch{}
	w.say(m, "disk wiped")
	w.noteSecondRoster()
}

// noteSecondRoster looks whether a second roster could form: docs/protocol.md, 4.4:
// "A second roster needs expect voters that have none, whatever number of disks is
// lost, and whenever".
func (w *World) noteSecondRoster() {
	without, expect := 0, len(w.machines)
	for _, m := range w.votersByPart() {
		expect = min(expect, m.cfg.Expect)
		if len(m.roster()) == 0 {
			without++
		} else {
			w.hadRoster = true
		}
	}
	if w.mode != Quorum || !w.hadRoster || without < expect || w.faults[SecondRoster] > 0 {
		return
	}
	w.fired(SecondRoster)
	w.say(nil, "%d voters are without a roster: from now on another may form", without)
	w.waive(SecondRoster)
}
