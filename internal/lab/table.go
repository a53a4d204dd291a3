package lab

import (
	"fmt"
	"strconv"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
	"github.com/bully-agent/bully-agent/internal/screen"
)

// row is one node in the live table.
type row struct {
	name, role, leader, state, hook, cable string
	pid                                    int
	epoch                                  uint64
}

// head names the columns of the live table.
var head = []string{"NAME", "PID", "ROLE", "LEADER", "EPOCH", "STATE", "CABLE", "LAST HOOK"}

// line is the row as the screen shows it.
func (r row) line() screen.Row {
	return screen.Row{Cells: []string{r.name, number(uint64(r.pid)), orDash(r.role), orDash(r.leader), number(r.epoch), r.state, r.cable,
		orDash(r.hook)}}
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// row is what is known of n: from its process, from what it answered last, and from its hooks.
func (n *node) row(v view, records []verdict.Record, now time.Duration) row {
	r := row{name: n.name, cable: "-"}
	r.state, r.pid = n.condition()
	if r.pid != 0 && v.node != nil && v.err == nil {
		r.role, r.epoch = v.status.Role, v.status.Epoch.Counter
		if v.status.Leader != nil {
			r.leader = v.status.Leader.Name
		}
	}
	if n.host != nil {
		r.cable = "in"
		if n.isSevered() {
			r.cable = "PULLED"
		}
	}
	for _, x := range records {
		if x.Node == n.name && (x.What == verdict.Became || x.What == verdict.Lost) {
			r.hook = fmt.Sprintf("%s, epoch %d, %s ago", x.What, x.Epoch.Counter, (now - x.At).Round(time.Second))
		}
	}
	return r
}
