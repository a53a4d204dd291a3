package pictures

import (
	"iter"

	"github.com/bully-agent/bully-agent/election"
)

// at is where the state's box stands: the middle of its upper edge.
var at = map[election.State]point{
	election.Start: {56, 44}, election.Follow: {206, 44},
	election.Suspect: {206, 134},
	election.Stagger: {206, 232},
	election.Elect:   {206, 320}, election.Wait: {384, 320},
	election.Claiming: {206, 408},
	election.Lead:     {206, 506},
	election.Stopping: {206, 594},
	election.Observe:  {56, 692},
}

const stateWide, stateHigh = 80, 34

var looks = map[election.Role]class{election.RoleFollower: follower, election.RoleCandidate: candidate, election.RoleLeader: leader, election.RoleObserver: plain}

func states() *drawing {
	d := &drawing{title: "The states of a host", height: 740,
		about: "A follower suspects a leader that is silent, and becomes a candidate if the others do not hear the leader either. " +
			"A candidate waits for its turn, asks the better hosts, claims, and leads once enough hosts have acknowledged. A leader runs its lose hook and follows."}
	for _, b := range []struct {
		top, bottom float64
		role        election.Role
	}{{8, 178, election.RoleFollower}, {182, 450, election.RoleCandidate}, {454, 652, election.RoleLeader}, {656, 734, election.RoleObserver}} {
		d.band(b.top, b.bottom, looks[b.role])
		d.bold(8, b.top+20, start, b.role.String())
	}
	for s, p := range inOrder() {
		d.box(area{p.x - stateWide/2, p.y, p.x + stateWide/2, p.y + stateHigh}, looks[s.Role()], s.String())
	}

	const (
		mid  = 206 // the middle column
		back = 432 // where the ways back to Follow run
	)
	d.arrow(plain, point{96, 61}, point{166, 61})
	d.text(131, 55, middle, plain, "hears a")
	d.text(131, 76, middle, plain, "leader")
	d.arrow(plain, point{92, 78}, point{92, 249}, point{166, 249})
	d.text(98, 204, start, plain, "settled,", "nobody", "leads")
	d.arrow(plain, point{186, 78}, point{186, 134})
	d.text(180, 118, end, plain, "silence")
	d.arrow(plain, point{226, 134}, point{226, 78})
	d.text(234, 102, start, plain, "the leader answers,", "or most hear it")
	down := func(from, to election.State, why ...string) {
		a, b := at[from].y+stateHigh, at[to].y
		d.arrow(plain, point{mid, a}, point{mid, b})
		d.text(mid+8, (a+b)/2+5-float64(len(why)-1)*lineStep/2, start, plain, why...)
	}
	down(election.Suspect, election.Stagger, "probes are lost, and", "most do not hear it")
	down(election.Stagger, election.Elect, "its turn, by rank")
	d.arrow(plain, point{246, 337}, point{344, 337})
	d.text(295, 331, middle, plain, "a better")
	d.text(295, 353, middle, plain, "host lives")
	down(election.Elect, election.Claiming, "no better host lives,", "and the old lease is over")
	down(election.Claiming, election.Lead, "enough acknowledge")
	down(election.Lead, election.Stopping, "lease, hand-over, or", "a higher epoch")
	d.arrow(plain, point{384, 320}, point{384, 68}, point{246, 68})
	d.text(378, 256, end, plain, "it leads")
	d.path(plain, point{246, 611}, point{back, 611}, point{back, 425})
	d.text(254, 605, start, plain, "the lose hook has ended")
	d.arrow(plain, point{246, 425}, point{back, 425}, point{back, 54}, point{246, 54})
	d.text(254, 419, start, plain, "a higher epoch")
	d.text(108, 706, start, plain, "never leads; a witness", "votes here, too")
	return d
}

// inOrder is each state with its place.
func inOrder() iter.Seq2[election.State, point] {
	return func(yield func(election.State, point) bool) {
		for s := election.Start; s.String() != election.State(0).String(); s++ {
			if !yield(s, at[s]) {
				return
			}
		}
	}
}
