package hooks

import (
	"errors"
	"time"
)

// Programs that name hosts to join, each in a lane of its own. One runs when the agent asks, once at a time.

// programLane is that of one program.
type programLane struct {
	program string
	turn
}

// errStillHangs is the answer of a program of which an earlier run lives on after KILL.
var errStillHangs = errors.New("its last run hangs in the kernel")

// inquire runs a program. Its end is told once, whoever asks meanwhile.
func (q *questions) inquire(now time.Time, e Inquired, do func(LaneEffect)) {
	p := q.programs[e.Program]
	switch {
	case q.isOver || p != nil && !p.isHeard:
	case p != nil:
		do(TellReply{Program: e.Program, Reply: Reply{Err: errStillHangs}})
	default:
		if q.programs == nil {
			q.programs = map[string]*programLane{}
		}
		p = &programLane{program: e.Program, turn: turn{lane: Lane("program " + e.Program)}}
		q.programs[e.Program] = p
		do(q.begin(now, &p.turn, Consult{Command: Command{Argv: []string{e.Program}}, About: []string{"BULLY_EVENT=join"}, Most: e.Most}, e.Timeout))
	}
}
