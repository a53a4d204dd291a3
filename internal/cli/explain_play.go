package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/sim"
)

// ifAnswer is the JSON of explain --if.
type ifAnswer struct {
	If       string        `json:"if"`
	Hit      string        `json:"hit"`
	Plays    int           `json:"plays"`
	Leaders  []ifLeader    `json:"leaders"`      // the most frequent first; one without a name: nobody
	HitLeads float64       `json:"hit_leads"`    // in this share of the plays the host that is hit leads in the end, on its side
	NoneLed  bool          `json:"none_led"`     // nobody leads this cluster before, either
	Quorum   *ifQuorum     `json:"quorum"`       // null in available mode
	LoseHook float64       `json:"lose_hook_ms"` // that was counted
	Text     string        `json:"text"`
	took     time.Duration // of all plays
}

type ifQuorum struct {
	Have int `json:"have"`
	Need int `json:"need"`
	Of   int `json:"of"`
}

// ifLeader is who leads in some of the plays, and how long that took.
type ifLeader struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	Stays bool    `json:"stays"` // it led before, all the time
	P1    float64 `json:"p1_ms"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// playIf plays on all cores, as often as the time lets it.
func playIf(cluster *sim.Cluster, of control.Cluster, hit int, blow sim.Blow) (a ifAnswer, err error) {
	began := time.Now()
	var mu sync.Mutex
	var outcomes []sim.Outcome
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1)
				if seed > ifPlays || seed > 1 && time.Since(began) > ifSpan {
					return
				}
				o := sim.WhatIf(cluster, hit, blow, seed)
				mu.Lock()
				outcomes = append(outcomes, o)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	a = ifAnswer{Plays: len(outcomes), took: time.Since(began)}
	times, apart := map[int][]time.Duration{}, 0
	for _, o := range outcomes {
		if o.Violation != nil {
			return a, fmt.Errorf("the simulation fails, please report it: %s", o.Violation.Text)
		}
		times[o.Leader] = append(times[o.Leader], o.Took)
		a.NoneLed = a.NoneLed || o.NoneLed
		if o.HitLeads {
			apart++
		}
		if o.Need > 0 {
			a.Quorum = &ifQuorum{Have: o.Voters, Need: o.Need, Of: len(cluster.Roster)}
		}
	}
	a.HitLeads = float64(apart) / float64(len(outcomes))
	for i, took := range times {
		a.Leaders = append(a.Leaders, leaderOf(i, took, of.Hosts, len(outcomes)))
	}
	slices.SortFunc(a.Leaders, func(x, y ifLeader) int { return cmp.Or(cmp.Compare(y.Share, x.Share), strings.Compare(x.Name, y.Name)) })
	return a, nil
}

func leaderOf(i int, took []time.Duration, hosts []control.Host, plays int) ifLeader {
	l := ifLeader{Share: float64(len(took)) / float64(plays)}
	if i < 0 {
		return l
	}
	slices.Sort(took)
	at := func(p float64) float64 { return inMS(took[int(p*float64(len(took)-1)+0.5)]) }
	l.Name, l.P1, l.P50, l.P99 = hosts[i].Name, at(0.01), at(0.5), at(0.99)
	l.Stays = took[len(took)-1] == 0
	return l
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sentence is the answer for people.
func (a *ifAnswer) sentence() string {
	var parts []string
	if a.NoneLed {
		parts = append(parts, "nobody leads before that")
	}
	for _, l := range a.Leaders {
		parts = append(parts, l.sentence())
	}
	if a.HitLeads > 0 {
		parts = append(parts, a.Hit+" leads on its side of the cut"+inShare(a.HitLeads))
	}
	if q := a.Quorum; q != nil && q.Have >= q.Need {
		parts = append(parts, fmt.Sprintf("quorum stays (%d of %d)", q.Have, q.Of))
	} else if q != nil {
		parts = append(parts, fmt.Sprintf("quorum is lost (%d of %d, %d needed)", q.Have, q.Of, q.Need))
	}
	return strings.Join(parts, "; ")
}

func (l *ifLeader) sentence() string {
	switch {
	case l.Name == "":
		return "nobody leads" + inShare(l.Share)
	case l.Stays:
		return l.Name + " goes on leading" + inShare(l.Share)
	}
	return fmt.Sprintf("%s leads%s, p50 %s, p99 %s", l.Name, inShare(l.Share), ms(l.P50), ms(l.P99))
}

// inShare is nothing for all of the plays.
func inShare(share float64) string {
	if share == 1 {
		return ""
	}
	return fmt.Sprintf(" in %.0f %% of the plays", 100*share)
}

// ms shows a number of milliseconds, as exactly as it is worth.
func ms(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + "ms"
	case v >= 1000 && v < 10_000:
		return strconv.FormatFloat(v/1000, 'f', 2, 64) + "s"
	}
	return span(time.Duration(v * float64(time.Millisecond)))
}

// counted says what the times are of.
func (a *ifAnswer) counted(hook time.Duration, isAssumed bool) string {
	if !slices.ContainsFunc(a.Leaders, func(l ifLeader) bool { return l.P99 > 0 }) {
		return fmt.Sprintf("%d plays in %s\n", a.Plays, span(a.took))
	}
	origin := ""
	if isAssumed {
		origin = ", an assumption: none has run here"
	}
	return fmt.Sprintf("%d plays in %s; the time until it leads, without its become hook; a lose hook takes %s to %s%s\n", a.Plays, span(a.took), span(hook), span(2*hook), origin)
}
