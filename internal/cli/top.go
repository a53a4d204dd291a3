package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/screen"
)

var topCommand = command{
	name: "top", usage: "show the cluster as it changes, on a terminal",
	about: `Shows the view of this host's agent, twice a second: the members, the leader, and the latest events; q quits, the arrows
		move through a long list. While the agent is gone it says so and goes on asking. Where the output or the input is no
		terminal it prints once.`,
	examples: []string{program + " top", program + " top --json"},
	options:  []option{{name: "json", usage: "print JSON, once"}, socketOption},
	action:   top,
}

// topEvery is arbitrary: often enough to see a failover happen, and nothing to the agent.
const topEvery = 500 * time.Millisecond

// topPatience is for all that is asked at once; an agent that lives answers within milliseconds.
const topPatience = 2 * time.Second

// scene is what the agent has answered last.
type scene struct {
	Status  control.Status   `json:"status"`
	Members []control.Member `json:"members"`
	Events  []control.Event  `json:"events"` // oldest first, the last keptEvents

	gone  error     // why there was no answer since
	since time.Time // when it was missed first; zero: it answers
	asked bool      // it was, so that the rest means something
}

// keptEvents is more than any screen has lines.
const keptEvents = 200

func top(c *call) error {
	in, isFile := c.in.(*os.File)
	watched := isFile && isTerminal(in) && isTerminal(c.out) && os.Getenv("TERM") != "dumb" && !c.Bool("json")
	if watched {
		return c.watchTop(in)
	}
	s := (&scene{}).next(c.Context.Context, c.client())
	switch {
	case s.gone != nil:
		return s.gone
	case c.Bool("json"):
		return c.printJSON(s)
	}
	return c.print(s.picture(time.Now(), "", false).Text())
}

// watchTop returns when the user quits, with the terminal as it was. A signal that would end the process does no more.
func (c *call) watchTop(in *os.File) error {
	ctx, stop := signal.NotifyContext(c.Context.Context, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	return screen.Take(in, c.out, func(on *screen.Screen) error { return c.topOn(ctx, on) })
}

func (c *call) topOn(ctx context.Context, on *screen.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown, selected, client := scene{}, 0, c.client()
	latest := scene{} // the asker's own
	scenes := screen.Feed(ctx, topEvery, func() scene { latest = latest.next(ctx, client); return latest })
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		p := shown.picture(time.Now(), c.socketPath(), c.outColour)
		selected = max(min(selected, len(p.Rows)-1), 0)
		p.Selected = selected
		if err := on.Draw(p); err != nil {
			return fmt.Errorf("draw screen: %w", err)
		}
		select {
		case k := <-on.Keys:
			switch k {
			case 'q', 'Q', screen.KeyCtrlC, screen.KeyEnd:
				return nil
			case screen.KeyUp, 'k':
				selected--
			case screen.KeyDown, 'j':
				selected++
			}
		case answer := <-scenes:
			shown = answer()
		case <-on.Resized:
		case <-tick.C: // what is shown has grown older
		case <-ctx.Done():
			return nil
		}
	}
}

// next asks anew. What was answered before stays if nobody answers.
func (s scene) next(ctx context.Context, client *control.Client) scene {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	next, err := s.ask(ctx, client)
	if err == nil {
		return next
	}
	if s.gone = err; s.since.IsZero() {
		s.since = time.Now()
	}
	return s
}

func (s scene) ask(ctx context.Context, client *control.Client) (next scene, err error) {
	if next.Status, err = client.Status(ctx); err != nil {
		return next, err
	}
	if next.Members, err = client.Members(ctx); err != nil {
		return next, err
	}
	newest := uint64(0)
	if isSameLife := s.gone == nil && next.Status.Uptime >= s.Status.Uptime; isSameLife && len(s.Events) > 0 {
		next.Events, newest = slices.Clone(s.Events), s.Events[len(s.Events)-1].Seq
	}
	err = client.Events(ctx, newest, false, func(e control.Event) error { next.Events = append(next.Events, e); return nil })
	next.Events, next.asked = next.Events[max(len(next.Events)-keptEvents, 0):], true
	return next, err
}

// picture lays out what is known. Words of others cannot leave their cell.
func (s scene) picture(now time.Time, socket string, coloured bool) screen.Picture {
	p := screen.Picture{Title: s.title(now, socket), Help: "↑ ↓ move · q quit", Notes: s.notes(), More: "(and %d more in status)",
		Head: []string{"NAME", "STATUS", "ROLE", "PRIORITY", "RTT", "LAST HEARD", "ADDRESS", "ID"}}
	if s.gone != nil {
		p.Notes, p.Message = nil, config.Printable(strings.TrimSpace(errorLines(s.gone)))
	}
	for _, m := range s.Members {
		row := screen.Row{Cells: []string{m.Name, (&console{}).memberStatus(m), m.Role, fmt.Sprint(m.Priority), roundTrip(m), lastHeard(m), m.Addr, m.ID}}
		for i := range row.Cells {
			row.Cells[i] = config.Printable(row.Cells[i])
		}
		if coloured {
			row.Paint = string(rowColour(m))
		}
		p.Rows = append(p.Rows, row)
	}
	for _, e := range s.Events {
		// 80 columns have no room for the day, the type and the role, and the text says the latter two.
		text := e.Time.Local().Format("15:04:05.000") + "  " + e.Text + " " + eventKeys(e)
		p.Recent = append(p.Recent, config.Printable(strings.TrimSpace(text)))
	}
	return p
}

func rowColour(m control.Member) colour {
	switch {
	case m.Status == "dead":
		return red
	case m.Status != "alive":
		return yellow
	case m.Leader:
		return green
	}
	return ""
}

func (s scene) title(now time.Time, socket string) []string {
	if !s.asked {
		return []string{s.absence(now, socket), ""}
	}
	plain, t := &console{}, s.Status
	lead := "leader " + plain.leaderText(t) + " · epoch " + fmt.Sprint(t.Epoch.Counter)
	if t.LeaseRemainMS != nil {
		lead += " · lease " + leaseText(t)
	}
	lead += " · " + plain.membersRow(t)
	about := fmt.Sprintf("%s: %s for %s · cluster %s, %s mode, %s", t.Self.Name, t.Role, coarse(now.Sub(t.Since)), t.Cluster, t.Mode, t.Version)
	if s.gone != nil {
		about = s.absence(now, socket)
	}
	lines := []string{config.Printable(about), config.Printable(lead)}
	if has := possessions(t); has != "" {
		lines = append(lines, config.Printable(has))
	}
	return lines
}

// possessions names the resources of a leader, and which of them is not here; empty: none is configured, or it does not lead.
func possessions(t control.Status) string {
	if t.Role != "leader" || len(t.Resources) == 0 {
		return ""
	}
	names := make([]string, len(t.Resources))
	for i, r := range t.Resources {
		if names[i] = r.Name; !r.Here {
			names[i] += " (not here)"
		}
	}
	return "resources: " + strings.Join(names, ", ")
}

// absence says that no agent answers, and since when.
func (s scene) absence(now time.Time, socket string) string {
	if s.gone == nil {
		return "asking the agent at " + socket
	}
	text := fmt.Sprintf("NO AGENT ANSWERS at %s for %s", socket, coarse(now.Sub(s.since)))
	if s.asked {
		text += "; what it said last:"
	}
	return config.Printable(text)
}

// notes are what a person should know besides: those of this host, and then of each other host what these do not say.
func (s scene) notes() (notes []string) {
	for _, n := range s.Status.Notes {
		notes = append(notes, config.Printable("note: "+n))
	}
	label := control.Labels(s.Members)
	for _, m := range s.Members {
		m.Mute, m.Relayed, m.Notes = false, false, nil // the notes of this host say them at length
		if said := memberNotes(m); len(said) > 0 && !m.Self {
			notes = append(notes, config.Printable(fmt.Sprintf("note: %s: %s; status there says more", label(m.Name, m.Addr), strings.Join(said, ", "))))
		}
	}
	return notes
}

// coarse is a span that does not flicker: whole seconds at least.
func coarse(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
