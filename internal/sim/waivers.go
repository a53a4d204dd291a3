package sim

import "fmt"

// waiver is an invariant, or some, that a fault may break, and why. Whatever is not waived is judged in the schedules of that
// fault as in all others.
type waiver struct {
	fault  Fault
	broken []int // as Violation numbers them
	why    string
}

// jobsAt is where the numbers of the invariants of jobs begin.
const jobsAt = 100

// waivers are all of them, of the faults beyond the promise first (docs/quorum.md, "What it rests on").
var waivers = []waiver{
	{ClockBeyond, []int{5, 9, hadAt + 3, jobsAt + 3, jobsAt + 4}, "a slow clock ends its lease, and what runs under it, when the voters' promises have run out"},
	{ClockBeyond, []int{14}, "a lease on a slow clock is longer in true time than the hundredth that is allowed for"},
	{ClockBeyond, []int{20}, "two that act at once write, and the resource refuses the older one"},

	{SlewBeyond, []int{5, 9, hadAt + 3, jobsAt + 3, jobsAt + 4}, "leases go by the slewed clock: as of one that runs away"},
	{SlewBeyond, []int{14}, "as of a clock that runs away"},
	{SlewBeyond, []int{20}, "as of a clock that runs away"},

	{VMPause, []int{5, 9, hadAt + 3, jobsAt + 3, jobsAt + 4}, "a clock that stood still has its lease go on after the voters' promises have run out"},
	{VMPause, []int{20}, "the leader that goes on acts by its clock, and the resource refuses it"},

	{LyingSync, []int{2, 7, 8, hadAt + 1}, "a host that lost the counter that it minted mints it again, and leads in it again"},
	{LyingSync, []int{6}, "a host that lost the epoch that it accepted accepts an older one"},
	{LyingSync, []int{3, 4, 5, 9, hadAt + 3, 20, jobsAt + 3, jobsAt + 4}, "a voter that lost its vote or its promise gives it again"},
	{LyingSync, []int{jobsAt + 1}, "a voter that lost the claim of a slot lets another claim it"},
	{LyingSync, []int{12, 13}, "others refuse what it sends until its lives are as many as they knew of, and one of its leaderships may lapse so"},

	{Restored, []int{2, 7, 8, hadAt + 1}, "it mints again what it minted after the backup"},
	{Restored, []int{6}, "it accepts epochs again that are older than what it accepted after the backup"},
	{Restored, []int{3, 4, 5, 9, hadAt + 3, 20, jobsAt + 1, jobsAt + 3, jobsAt + 4}, "a voter of the backup gives again the votes and promises that were given after it"},
	{Restored, []int{12, 13}, "others refuse what it sends until its lives are as many as they knew of, and one of its leaderships may lapse so"},

	{Clone, []int{2, 7}, "two hosts mint the same epochs, and lead in them"},
	{Clone, []int{3, 4, 5, 9, hadAt + 3, 20, jobsAt + 1, jobsAt + 3, jobsAt + 4}, "one voter is two, which vote and promise each for itself"},
	{Clone, []int{6}, "who votes twice in one counter may follow the other leader of it"},
	{Clone, []int{12, 13}, "which of the two is believed changes with each life of one"},
	{Clone, []int{14}, "acknowledgements are counted by host, and one host's are taken for the other's"},

	{SecondRoster, []int{3, 5, 9, hadAt + 3, 20, jobsAt + 1, jobsAt + 3, jobsAt + 4}, "a majority of each roster has a leader of its own"},
	{SecondRoster, []int{12, 13, 18}, "the two may never agree"},
}

// waive takes what a fault may break out of what is judged from now on.
func (w *World) waive(f Fault) {
	for _, row := range waivers {
		if row.fault == f {
			for _, number := range row.broken {
				w.waived[number] = true
			}
		}
	}
}

// invariantName is how docs/protocol.md and package jobs call an invariant.
func invariantName(number int) string {
	if number > checkedAt {
		return fmt.Sprintf("C%d", number-checkedAt)
	}
	if number > hadAt {
		return fmt.Sprintf("H%d", number-hadAt)
	}
	if number > jobsAt {
		return fmt.Sprintf("J%d", number-jobsAt)
	}
	return fmt.Sprintf("I%d", number)
}
