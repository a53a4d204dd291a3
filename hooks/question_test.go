package hooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// question is what stories say of checks, and of programs that name hosts.
func (p *play) question(verb string, args []string, o options) {
	switch verb {
	case "check": // check web interval=2s timeout=1s rise=2 fall=3
		p.setCheck(Check{Name: args[0], Command: Command{Shell: args[0]}, Interval: cmp.Or(o.interval, time.Second), Timeout: cmp.Or(o.timeout, 100*time.Millisecond),
			Rise: cmp.Or(o.rise, 1), Fall: cmp.Or(o.fall, 1)})
	case "no-check":
		p.checks = slices.DeleteFunc(slices.Clone(p.checks), func(c Check) bool { return c.Name == args[0] })
		p.step(Checking{p.checks})
	case "answers": // answers web takes=10ms exit=1 stays hangs never: how runs of a check, or of a program, go from now on
		p.answers[args[0]] = o.script()
	case "ask":
		p.step(Inquired{Program: args[0], Timeout: time.Second, Most: 100})
	case "vacated": // vacated check web: what has hung is gone
		ln := Lane(strings.Join(args, " "))
		seq := p.hanging[ln]
		delete(p.hanging, ln)
		p.step(Consulted{Lane: ln, Seq: seq})
	case "late": // late check web: what could not be started for long is started now, and ended at once
		ln := Lane(strings.Join(args, " "))
		proc := p.alive[ln]
		delete(p.alive, ln)
		proc.over(ending.End{Exit: -1, Err: ErrStopping})
	case "deserted":
		p.step(AgentDied{})
	}
}

// setCheck adds a check, or changes it.
func (p *play) setCheck(c Check) {
	p.checks = slices.Clone(p.checks)
	if i := slices.IndexFunc(p.checks, func(other Check) bool { return other.Name == c.Name }); i >= 0 {
		p.checks[i] = c
	} else {
		p.checks = append(p.checks, c)
	}
	p.step(Checking{p.checks})
}

func (p *play) consult(e Consult) {
	_, isHanging := p.hanging[e.Lane]
	if p.alive[e.Lane] != nil || isHanging {
		p.t.Fatalf("%s starts while it runs\n%s", e.Lane, &p.trace)
	}
	_, name, _ := strings.Cut(string(e.Lane), " ")
	proc := &process{name: string(e.Lane), limit: e.Limit, begun: p.now, script: p.answers[name]}
	proc.over = func(end ending.End) {
		if end.IsStuck {
			p.hanging[e.Lane] = e.Seq
		}
		reply := Reply{Err: end.Err}
		if e.Most > 0 {
			reply.Text = []byte("alpha.lan")
		}
		p.step(Consulted{Lane: e.Lane, Seq: e.Seq, Reply: reply, Hangs: end.IsStuck})
	}
	p.alive[e.Lane] = proc
	if proc.script.never {
		p.note("%s is being started, and that hangs", e.Lane)
		return
	}
	p.note("%s starts", e.Lane)
	p.plan(e.Lane, proc)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// It takes rise passes and fall failures in a row to change a state, whatever comes
// between.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name       string
		rise, fall int
		from       CheckState
		runs, want string // p: passes, f: fails; the state after each run: . is pending, p, f
	}{
		{"one is enough", 1, 1, CheckPending, "pfp", "pfp"},
		{"rise", 3, 1, CheckPending, "ppp", "..p"},
		{"fall from the start", 1, 3, CheckPending, "fff", "..f"},
		{"a start that is not well", 2, 3, CheckPending, "ffpffpp", "......p"},
		{"flaps below both", 2, 2, CheckPasses, "fpfpfpfp", "pppppppp"},
		{"falls, and rises", 2, 3, CheckPasses, "ffffpfpp", "ppffffFp"},
	} {
		j := judge{rise: c.rise, fall: c.fall, state: c.from}
		var got strings.Builder
		for _, run := range c.runs {
			j.take(run == 'p')
			got.WriteByte(".pf"[j.state])
		}
		if want := strings.ToLower(c.want); got.String() != want {
			t.Errorf("%s: after runs %s it was %s, want %s", c.name, c.runs, got.String(), want)
		}
	}
}

// Whatever checks do and reloads say: a lane has one command at a time, each run is over when its time and the grace have
// passed, and a check that is configured runs again and again, unless it hangs, until the agent is dead.
func TestChecksKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(nil, map[Kind]script{})
		p.t = fataler{rapidT: t}
		draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		names := []string{"a", "b", "c"}
		for range 5 + draw("steps", 20) {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch draw("what", 3) {
			case 0:
				p.do("check", []string{name, fmt.Sprintf("interval=%dms", 50+100*draw("interval", 5)), fmt.Sprintf("rise=%d", 1+draw("rise", 2))})
			case 1:
				p.do("no-check", []string{name})
			case 2:
				p.answers[name] = script{takes: time.Duration(draw("takes", 200)) * time.Millisecond, exit: draw("exit", 1), stays: draw("stays", 2) == 0}
			case 3:
				p.do("ask", []string{name})
			}
			p.advance(time.Duration(draw("passes", 700)) * time.Millisecond)
		}
		for _, name := range names {
			p.answers[name] = script{exit: 1}
		}
		p.advance(5 * time.Second)
		p.trace.Reset()
		p.advance(2 * time.Second)
		for _, c := range p.checks {
			if want := "check " + c.Name + " starts\n"; strings.Count(p.trace.String(), want) < 2 {
				t.Fatalf("check %s does not run\n%s", c.Name, &p.trace)
			}
		}
		p.step(AgentDied{})
		p.advance(time.Second)
		p.trace.Reset()
		p.step(Checking{p.checks})
		p.advance(time.Minute)
		if strings.Contains(p.trace.String(), "starts") || len(p.alive) > 0 {
			t.Fatalf("%d commands run after the agent's death\n%s", len(p.alive), &p.trace)
		}
	})
}
