package verdict

import (
	"fmt"
	"strings"
	"time"
)

// ParseStory reads records as tests tell them, here and in package lab: lines such as "1.2 n5 became 3 boot" with seconds,
// node, what, and for hooks the epoch's counter, with /owner where that is not the node itself, a cause, and "2" for a
// second attempt. Where no "losing" comes before a "lost", it is at the same time.
func ParseStory(lines string) (records []Record, err error) {
	kinds := map[string]What{"started": Started, "became": Became, "losing": Losing, "lost": Lost, "ordered": Ordered, "dropped": Dropped,
		"killed": Killed, "stopped": Stopped, "paused": Paused, "continued": Continued, "cut": Cut, "plugged": Plugged,
		"exited": Exited, "agreed": Agreed}
	isLosing := map[string]bool{}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var at float64
		if _, err := fmt.Sscan(f[0], &at); err != nil || len(f) < 3 || kinds[f[2]] == 0 {
			return nil, fmt.Errorf("line %q: expected seconds, node and what", line)
		}
		r := Record{At: time.Duration(at * float64(time.Second)), Node: f[1], What: kinds[f[2]], Attempt: 1}
		if len(f) > 3 {
			counter, owner, isOther := strings.Cut(f[3], "/")
			if _, err := fmt.Sscan(counter, &r.Epoch.Counter); err != nil {
				return nil, fmt.Errorf("line %q: epoch: %w", line, err)
			}
			if r.Epoch.Owner = owner; !isOther {
				r.Epoch.Owner = r.Node
			}
		}
		if len(f) > 4 {
			r.Cause = f[4]
		}
		if len(f) > 5 {
			r.Attempt = 2
		}
		if begun := (Record{r.At, r.Node, Losing, r.Epoch, r.Cause, r.Attempt}); r.What == Lost && !isLosing[r.Node] {
			records = append(records, begun)
		}
		isLosing[r.Node] = r.What == Losing || isLosing[r.Node] && r.What != Lost
		records = append(records, r)
	}
	return records, nil
}
