package election

import "strings"

// Bar is one of the things that keep a node from standing for election. A node that any of
// them holds back goes on following and voting as far as it may.
type Bar uint8

// The bars, in the order in which people are told of them.
const (
	BarPart        Bar = iota // it was made a witness or an observer
	BarRoster                 // quorum mode: it is no voter of the roster
	BarLeave                  // it was asked to leave
	BarDisk                   // the disk takes no writes
	BarLink                   // its host has no link, and others are known
	BarHold                   // an operator had it step down, for a while
	BarCheck                  // a check of its host fails, or has not passed yet
	BarMaintenance            // an operator is at work on its host
	BarListed                 // a host of its list has another one, without it
	barCount
)

// AllBars gives the bars, in that order.
func AllBars() []Bar {
	all := make([]Bar, barCount)
	for i := range all {
		all[i] = Bar(i)
	}
	return all
}

var barWords = [barCount]string{BarPart: "part", BarRoster: "roster", BarLeave: "leave",
	BarDisk: "disk", BarLink: "link", BarHold: "hold-down", BarCheck: "check", BarMaintenance: "maintenance",
	BarListed: "not-listed"}

// barRow says what holds of a bar that the agent sets: a leader that it holds back hands over (M32).
type barRow struct {
	comes, goes Cause
}

// barTable has a row for each of them; the others the node finds out itself.
var barTable = [barCount]barRow{
	BarCheck:       {comes: CheckFailed, goes: ChecksPass},
	BarMaintenance: {comes: Maintenance, goes: MaintenanceEnded},
	BarListed:      {comes: NotListed, goes: ListedAgain},
}

// String gives the bar's word.
func (b Bar) String() string { return barWords[b] }

// Bars is a set of them.
type Bars uint16

// Has says whether b is among them.
func (s Bars) Has(b Bar) bool { return s&(1<<b) != 0 }

func (s Bars) with(b Bar, on bool) Bars {
	if on {
		return s | 1<<b
	}
	return s &^ (1 << b)
}

// String names them, with commas; nothing for none.
func (s Bars) String() string {
	var words []string
	for b := range barCount {
		if s.Has(b) {
			words = append(words, b.String())
		}
	}
	return strings.Join(words, ",")
}

// isElectable: this node may stand for election.
func (n *Node) isElectable() bool { return n.bars() == 0 }

// bars gives all that keeps this node from standing. What decides and what people are
// told is this one list.
func (n *Node) bars() Bars {
	return n.told.
		with(BarPart, n.cfg.Part != Voter).
		with(BarRoster, n.isOutside || !n.isVoter(n.cfg.ID)).
		with(BarLeave, n.leaving).
		with(BarDisk, n.diskFailed).
		with(BarLink, n.linkDown).
		with(BarHold, n.timers.isArmed(holdTimer))
}

// onBarred takes what the agent has found out about its host. Who follows goes on
// following, and nobody waits for it: what it sends says that it is draining.
func (n *Node) onBarred(e Barred) {
	row := barTable[e.Bar]
	if row.comes == "" {
		panic("BUG: told of what the node knows itself: " + e.String())
	}
	was := n.told
	n.told = was.with(e.Bar, e.On)
	if !e.On && n.reign.transfer.bars.Has(e.Bar) {
		n.takeBack()
	}
	switch {
	case n.told == was:
	case n.state == Lead:
		if e.Bar == BarListed {
			n.timers.arm(partTimer, n.now.Add(Parting))
		}
		n.onLeaderBarred()
	case e.On && n.state == Claiming:
		n.withdraw(row.comes)
	case e.On && n.isStanding():
		n.becomeObserver(row.comes)
	case !e.On:
		n.resumeStanding(row.goes, n.cfg.Lease) // somebody else may lead by now
	}
}
