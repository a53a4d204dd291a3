package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/sim"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	ifPlays    = 1000            // more of them change no digit that is shown
	ifSpan     = 2 * time.Second // of real time for all of them
	ifLoseHook = 20 * time.Millisecond
	ifHosts    = 128 // a play of more takes seconds
)

// ifVerbs are the blows by their words, before and behind the name.
var ifVerbs = []struct {
	before, behind string
	blow           sim.Blow
}{
	{"kill", "is killed", sim.AgentKilled},
	{"switch off", "dies", sim.HostDies},
	{"cut", "is cut", sim.HostCut},
	{"stop", "stops", sim.AgentStops},
	{"freeze", "freezes", sim.AgentFreezes},
}

// explainIf plays what happens to the live cluster in this process, not in the agent.
func (c *call) explainIf() error {
	if c.NArg() > 0 {
		return usage("", "--if is about the host that it names: expected no MEMBER")
	}
	e, err := c.client().Explain(c.Context.Context, "")
	if err != nil {
		return err
	}
	hit, blow, err := parseIf(c.String("if"), e.Cluster.Hosts)
	if err != nil {
		return err
	}
	hook, isAssumed, err := c.loseHook(e.Cluster)
	if err != nil {
		return err
	}
	cluster, err := simulated(e.Cluster, hook)
	if err != nil {
		return err
	}
	answer, err := playIf(cluster, e.Cluster, hit, blow)
	if err != nil {
		return err
	}
	answer.If, answer.Hit, answer.LoseHook = c.String("if"), e.Cluster.Hosts[hit].Name, inMS(hook)
	answer.Text = answer.sentence()
	if c.Bool("json") {
		return c.printJSON(answer)
	}
	return c.print(answer.Text + "\n" + answer.counted(hook, isAssumed))
}

func (c *call) loseHook(of control.Cluster) (took time.Duration, isAssumed bool, err error) {
	if took, err = c.duration("lose-hook"); err != nil || c.IsSet("lose-hook") {
		return took, false, err
	}
	if of.LoseHookMS != nil {
		return time.Duration(*of.LoseHookMS * float64(time.Millisecond)), false, nil
	}
	return ifLoseHook, true, nil
}

// parseIf finds the verb and the host in "kill alpha" or "alpha dies".
func parseIf(text string, hosts []control.Host) (hit int, blow sim.Blow, err error) {
	words := strings.Join(strings.Fields(text), " ")
	var verbs []string
	for _, v := range ifVerbs {
		name, isBefore := strings.CutPrefix(words, v.before+" ")
		if !isBefore {
			name, isBefore = strings.CutSuffix(words, " "+v.behind)
		}
		verbs = append(verbs, strconv.Quote(v.before+" NAME")+" or "+strconv.Quote("NAME "+v.behind))
		if !isBefore {
			continue
		}
		i := slices.IndexFunc(hosts, func(h control.Host) bool {
			return h.Name == name || len(name) >= 4 && strings.HasPrefix(h.ID, strings.ToLower(name))
		})
		if i < 0 {
			var known []string
			for _, h := range hosts {
				known = append(known, h.Name)
			}
			slices.Sort(known)
			return 0, 0, usage("", "--if is %s, and there is no host %s: expected one of %s", strconv.Quote(text), strconv.Quote(name), strings.Join(known, ", "))
		}
		return i, v.blow, nil
	}
	return 0, 0, usage("", "--if is %s: expected %s", strconv.Quote(text), strings.Join(verbs, ", "))
}

// simulated puts a live cluster into the simulator's words.
func simulated(of control.Cluster, hook time.Duration) (*sim.Cluster, error) {
	algorithm := map[string]election.Algorithm{"classic": election.Classic, "enhanced": election.Enhanced, "smallest": election.Smallest}[of.Algorithm]
	policy, isKnown := map[string]election.Policy{"priority": election.PreemptPriority, "always": election.PreemptAlways, "never": election.PreemptNever}[of.Preempt]
	if algorithm == 0 || !isKnown {
		return nil, fmt.Errorf("the agent has algorithm %q and preempt %q, which this program does not know", of.Algorithm, of.Preempt)
	}
	c := &sim.Cluster{Counter: of.Epoch, LoseHook: hook, Save: time.Duration(of.SaveMS * float64(time.Millisecond)), Settings: election.Config{
		Algorithm: algorithm, Preempt: policy, Expect: of.Expect, Heartbeat: time.Duration(of.Heartbeat), Lease: time.Duration(of.Lease),
		StopBudget: time.Duration(of.StopBudget), TakeoverDelay: time.Duration(of.TakeoverDelay), PreemptDelay: time.Duration(of.PreemptDelay),
		MinAcks: of.MinAcks, MinMembers: of.MinMembers, CandidateSet: of.CandidateSet, KnownMinimum: uint16(of.KnownMinimum)}}
	if len(of.Hosts) > ifHosts {
		return nil, &failure{code: exitRefused, err: fmt.Errorf("--if plays clusters of up to %d hosts, and this one has %d", ifHosts, len(of.Hosts))}
	}
	own := ownShare(of.Hosts)
	for _, h := range of.Hosts {
		id, err := wire.ParseID(h.ID)
		if err != nil {
			return nil, fmt.Errorf("the agent names a member: %w", err)
		}
		part := map[string]election.Part{"witness": election.Witness, "observer": election.Observer}[h.Role]
		far := own
		if rtt := time.Duration(h.RTTMS * float64(time.Millisecond)); rtt > 0 {
			far = rtt/2 - own
		}
		c.Hosts = append(c.Hosts, sim.Host{ID: id, Priority: uint16(h.Priority), Part: part, Here: h.Here, Leads: h.Leader, IsBarred: len(h.Bars) > 0, Far: far})
	}
	for _, voter := range of.Roster {
		id, err := wire.ParseID(voter)
		if err != nil {
			return nil, fmt.Errorf("the agent names a voter: %w", err)
		}
		c.Roster = append(c.Roster, id)
	}
	return c, nil
}

// ownShare is this host's own share of the way to another: half of that to the nearest.
func ownShare(hosts []control.Host) time.Duration {
	least := math.Inf(1)
	for _, h := range hosts {
		if h.RTTMS > 0 {
			least = min(least, h.RTTMS)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return time.Duration(least / 4 * float64(time.Millisecond))
}
