package agent

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
)

var update = flag.Bool("update", false, "write what explain says to testdata")

// Whoever adds a bar says what it means to people: explain has a text for each.
func TestEachBarHasAText(t *testing.T) {
	for _, bar := range election.AllBars() {
		if barTexts[bar].no == nil {
			t.Errorf("explain has no text for the bar %q: give it one in barTexts", bar)
		}
	}
	for u := election.Fit + 1; u <= election.UnfitDraining; u++ { // the last
		if unfitNotes[u] == "" {
			t.Errorf("explain has no text for %q", u)
		}
	}
}

// why is what explain says on h, with the times left out, which chance has a part in.
func (h *testHost) why(t *testing.T, member string) string {
	t.Helper()
	e, err := h.agent.Explain(context.Background(), member)
	if err != nil {
		return h.name + "# explain " + member + "\nerror: " + err.Error() + "\n"
	}
	text := h.name + "# explain " + member + "\n" + e.Headline + "\n"
	for _, r := range e.Reasons {
		text += fmt.Sprintf("  %-4s %s: %s\n", map[bool]string{true: "ok", false: "NO"}[r.OK], r.About, r.Text)
	}
	for _, line := range e.Then {
		text += "  then " + line + "\n"
	}
	if e.TakesBack != "" {
		text += "  back " + e.TakesBack + "\n"
	}
	text = regexp.MustCompile(`\d+(\.\d+)?(ms|s|m|h)\b`).ReplaceAllString(text, "T")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+(Z|[+-][0-9:]+)`).ReplaceAllString(text, "TIME")
	return strings.ReplaceAll(text, h.dir, "DIR")
}

// withoutThen is for situations in which elections are tried again and again: where one is
// just now is chance.
func withoutThen(text string) string {
	return regexp.MustCompile(`(?m)^  (then|back) .*\n`).ReplaceAllString(text, "")
}

// Each story is a situation, and what explain says of it.
func TestExplainTellsStories(t *testing.T) {
	stories := []struct {
		name string
		size int
		tell func(t *testing.T, c *cluster) string
	}{
		{"a leader and who follows it", 3, func(t *testing.T, c *cluster) string {
			low, top := c.hosts[0], c.hosts[2]
			c.startAll()
			text := low.why(t, "") + top.why(t, "") + low.why(t, "n3") + low.why(t, "n2") + low.why(t, "delta")
			c.kill(top)
			time.Sleep(20 * time.Second)
			return text + low.why(t, "n3")
		}},
		{"a leader that stepped down", 2, func(t *testing.T, c *cluster) string {
			c.startAll()
			if err := c.hosts[1].order("step-down", map[string]string{"for": "1h"}); err != nil {
				t.Fatal(err)
			}
			c.agrees(c.hosts[0])
			time.Sleep(time.Second)
			return c.hosts[0].why(t, "") + c.hosts[0].why(t, "n2") + c.hosts[1].why(t, "")
		}},
		{"a host in maintenance", 2, func(t *testing.T, c *cluster) string {
			c.startAll()
			if err := c.hosts[1].order("maintenance", on("reason", "kernel upgrade", "for", "1h")); err != nil {
				t.Fatal(err)
			}
			c.agrees(c.hosts[0])
			time.Sleep(5 * time.Second)
			return c.hosts[1].why(t, "") + c.hosts[0].why(t, "n2")
		}},
		{"a better host comes back", 2, func(t *testing.T, c *cluster) string {
			c.start(c.hosts[0])
			c.agrees(c.hosts[0])
			c.start(c.hosts[1])
			time.Sleep(500 * time.Millisecond)
			return c.hosts[1].why(t, "") + c.hosts[0].why(t, "") + c.hosts[0].why(t, "n2")
		}},
		{"a hand-over under way", 2, func(t *testing.T, c *cluster) string {
			c.startAll()
			top := c.hosts[1]
			top.hooks.setLength(2 * time.Second)
			go top.order("handover", map[string]string{"to": "n1"})
			time.Sleep(time.Second)
			return top.why(t, "") + c.hosts[0].why(t, "") + c.hosts[0].why(t, "n2")
		}},
		{"the policy is never", 2, func(t *testing.T, c *cluster) string {
			c.electing(func(_ int, cfg *election.Config) { cfg.Preempt = election.PreemptNever })
			c.start(c.hosts[0])
			c.agrees(c.hosts[0])
			c.start(c.hosts[1])
			c.agrees(c.hosts[0])
			return c.hosts[1].why(t, "") + c.hosts[0].why(t, "n2")
		}},
		{"equal priorities", 2, func(t *testing.T, c *cluster) string {
			c.electing(func(_ int, cfg *election.Config) { cfg.Priority = 7 })
			c.start(c.hosts[0])
			c.agrees(c.hosts[0])
			c.start(c.hosts[1])
			c.agrees(c.hosts[0])
			return c.hosts[1].why(t, "") + c.hosts[0].why(t, "n2")
		}},
		{"an observer and a witness", 3, func(t *testing.T, c *cluster) string {
			c.electing(func(i int, cfg *election.Config) {
				cfg.Part = []election.Part{election.Observer, election.Witness, election.Voter}[i]
			})
			c.startAll()
			return c.hosts[0].why(t, "") + c.hosts[1].why(t, "") + c.hosts[2].why(t, "n1") + c.hosts[2].why(t, "")
		}},
		{"before a first election", 1, func(t *testing.T, c *cluster) string {
			c.start(c.hosts[0])
			return c.hosts[0].why(t, "")
		}},
		{"too few members", 2, func(t *testing.T, c *cluster) string {
			c.electing(func(_ int, cfg *election.Config) { cfg.MinMembers = 2 })
			c.start(c.hosts[0])
			time.Sleep(10 * time.Second)
			return withoutThen(c.hosts[0].why(t, ""))
		}},
		{"a resource that failed", 2, func(t *testing.T, c *cluster) string {
			c.startAll()
			c.hosts[1].lacks("vip has failed: deleted")
			c.agrees(c.hosts[0])
			time.Sleep(time.Second)
			text := c.hosts[1].why(t, "") + c.hosts[0].why(t, "n2")
			if err := c.hosts[1].order("stand", nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			return text + c.hosts[1].why(t, "")
		}},
		{"a become hook that failed", 2, func(t *testing.T, c *cluster) string {
			c.hosts[1].fails(hooks.BecomeLeader, errHook)
			c.start(c.hosts[1])
			time.Sleep(time.Second)
			text := c.hosts[1].why(t, "")
			c.start(c.hosts[0])
			c.agrees(c.hosts[0])
			return text + c.hosts[1].why(t, "")
		}},
		{"a resource that failed where nobody else can lead", 1, func(t *testing.T, c *cluster) string {
			c.startAll()
			c.hosts[0].lacks("vip has failed: deleted")
			time.Sleep(time.Second)
			return c.hosts[0].why(t, "")
		}},
		{"a resource that its leader does without", 1, func(t *testing.T, c *cluster) string {
			stays := vip
			stays.Stays = true
			c.hosts[0].settings = func(cfg *Config) { cfg.Hooks.Resources = []hooks.Resource{stays} }
			c.startAll()
			c.hosts[0].hooks.have(vipIs(false, "", "has not begun: no such device"))
			text := c.hosts[0].why(t, "")
			c.hosts[0].hooks.have(vipIs(true, "", ""))
			return text + c.hosts[0].why(t, "")
		}},
		{"the link is down", 3, func(t *testing.T, c *cluster) string {
			c.startAll()
			c.lan.Isolate("n3")
			c.hosts[2].link <- false
			time.Sleep(time.Second)
			return c.hosts[2].why(t, "")
		}},
		{"cut off", 3, func(t *testing.T, c *cluster) string {
			c.startAll()
			c.lan.Isolate("n3")
			time.Sleep(2 * time.Second)
			text := c.hosts[2].why(t, "")
			c.lan.Plug("n3")
			time.Sleep(30 * time.Second)
			return withoutThen(text)
		}},
		{"no roster yet", 3, func(t *testing.T, c *cluster) string {
			c.expecting(3)
			c.start(c.hosts[0])
			c.start(c.hosts[1])
			time.Sleep(10 * time.Second)
			return withoutThen(c.hosts[0].why(t, ""))
		}},
		{"a minority", 3, func(t *testing.T, c *cluster) string {
			c.expecting(3)
			c.startAll()
			text := c.hosts[1].why(t, "") + c.hosts[2].why(t, "")
			c.kill(c.hosts[2])
			c.kill(c.hosts[0])
			time.Sleep(20 * time.Second)
			return text + withoutThen(c.hosts[1].why(t, ""))
		}},
		{"a forgotten host", 4, func(t *testing.T, c *cluster) string {
			c.expecting(4)
			c.startAll()
			c.kill(c.hosts[0])
			time.Sleep(20 * time.Second)
			if err := c.hosts[3].order("forget", map[string]string{"member": "n1"}); err != nil {
				t.Fatal(err)
			}
			c.start(c.hosts[0])
			c.agrees(c.hosts[3])
			time.Sleep(2 * time.Second)
			return c.hosts[0].why(t, "") + c.hosts[3].why(t, "n1")
		}},
	}
	var told strings.Builder
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, s.size)
				fmt.Fprintf(&told, "# %s\n\n%s\n", s.name, s.tell(t, c))
				c.stopAll()
			})
		})
	}
	path := filepath.Join("testdata", "explain.golden")
	if *update {
		if err := os.WriteFile(path, []byte(told.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if told.String() != string(want) {
		t.Errorf("explain says, run with -update to accept it:\n%s\nwant:\n%s", told.String(), want)
	}
}

// startAll starts all hosts, and waits until they follow the last, which is the best.
func (c *cluster) startAll() {
	c.t.Helper()
	for _, h := range c.hosts {
		c.start(h)
	}
	c.agrees(c.hosts[len(c.hosts)-1])
	time.Sleep(time.Second)
}

// electing changes the settings of each host, by its place.
func (c *cluster) electing(change func(i int, cfg *election.Config)) {
	for i, h := range c.hosts {
		h.settings = func(cfg *Config) { change(i, &cfg.Election) }
	}
}
