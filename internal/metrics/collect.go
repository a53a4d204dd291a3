package metrics

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bully-agent/bully-agent/internal/control"
)

// maxPeers bounds the series that other hosts' names make.
const maxPeers = 64

// statuses are those of members, each of which is shown, also with nobody in it.
var statuses = []string{"alive", "suspect", "dead", "left", "told"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bully_"+name, help, labels, nil)
}

var (
	buildInfo  = desc("build_info", "1, with the version of the agent and of the Go that built it.", "version", "goversion")
	leader     = desc("leader", "1 if this host may act as the leader now, as bully-agent is-leader has it, else 0.")
	ready      = desc("ready", "1 if this host knows a leader and, if it leads, its become-leader hook has succeeded, else 0.")
	epoch      = desc("epoch", "Number of the leadership that this host knows; 0 if it knows none.")
	lease      = desc("lease_remaining_seconds", "How long this host may still act as the leader if nobody acknowledges it; 0 if it does not lead.")
	members    = desc("members", "Hosts that this one knows, itself included, by what it believes of them.", "status")
	voters     = desc("voters_heard", "Voters that this host hears, itself included; only in quorum mode.")
	changes    = desc("transitions_total", "Changes of role, leader or epoch on this host, by their cause.", "cause")
	dropped    = desc("frames_dropped_total", "Frames from the network that were refused unread, by reason.", "reason")
	owed       = desc("lose_hook_owed", "1 while a leadership of this host is not ended by its lose-leadership hook, that hook having failed or never run, else 0.")
	loopAge    = desc("loop_age_seconds", "Since the agent's loop has turned, which it does every second; above 3 it stands still, for example since its disk hangs.")
	resourceUp = desc("resource_up", "1 while this host has a resource, and keeps it.", "resource")
	checkUp    = desc("check_up", "1 if a check of this host passes, 0 while it fails or has not passed yet.", "check")
	success    = desc("job_last_success_timestamp_seconds", "When the newest known successful run of a job ended, on whatever host; left out while none is known.", "job")
	due        = desc("job_due_timestamp_seconds", "The newest slot of a job that has passed.", "job")
	paused     = desc("job_paused", "1 if slots of a job do not start since somebody paused it, else 0.", "job")
	roundTrip  = desc("round_trip_seconds", "Round trip to another host, as gossip has measured it last; at most 64 hosts.", "peer")
)

// shown are all metrics but those of hooks.
var shown = []*prometheus.Desc{buildInfo, leader, ready, epoch, lease, members, voters, changes, dropped, owed, loopAge, checkUp, resourceUp, success, due, paused, roundTrip}

// collector reads the source whenever it is asked.
type collector struct {
	source Source
	hooks  *hookCounts
}

func newCollector(source Source, since time.Time) *collector {
	return &collector{source: source, hooks: newHookCounts(since)}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range shown {
		to <- d
	}
	c.hooks.describe(to)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	c.collectStatus(to, gauge)
	c.collectMembers(gauge)
	c.collectJobs(gauge)
	c.hooks.countFrom(c.source)
	c.hooks.collect(to)
}

// gauges takes one value.
type gauges func(d *prometheus.Desc, value float64, labels ...string)

func (c *collector) collectStatus(to chan<- prometheus.Metric, gauge gauges) {
	s := c.source.Status()
	remains := time.Duration(0)
	if s.LeaseRemainMS != nil {
		remains = time.Duration(*s.LeaseRemainMS) * time.Millisecond
	}
	gauge(buildInfo, 1, strings.ToValidUTF8(s.Version, "?"), runtime.Version())
	gauge(leader, truth(s.WhyNotLeading(0) == ""))
	gauge(ready, truth(s.Ready))
	gauge(epoch, float64(s.Epoch.Counter))
	gauge(lease, remains.Seconds())
	gauge(owed, truth(c.source.LoseHookOwed()))
	gauge(loopAge, float64(s.LoopAgeMS)/1000)
	for _, c := range s.Checks {
		gauge(checkUp, truth(c.State == "passes"), c.Name)
	}
	for _, r := range s.Resources {
		gauge(resourceUp, truth(r.Here), r.Name)
	}
	if s.Quorum != nil {
		gauge(voters, float64(s.Quorum.Have))
	}
	for name, n := range s.Counters {
		if d, label := counterOf(name); d != nil {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
		}
	}
}

// counterOf finds the metric of one of the agent's own counters, and its label, in the word
// that the log has; nil: it is none.
func counterOf(name string) (d *prometheus.Desc, label string) {
	for prefix, d := range map[string]*prometheus.Desc{control.TransitionCounter: changes, "frame_": dropped} {
		if word, ok := strings.CutPrefix(name, prefix); ok {
			return d, word
		}
	}
	if word, ok := strings.CutPrefix(name, "seal_dropped_"); ok {
		return dropped, "seal-" + word
	}
	return nil, ""
}

func (c *collector) collectMembers(gauge gauges) {
	all := c.source.Members()
	for _, status := range statuses {
		n := 0
		for _, m := range all {
			if m.Status == status {
				n++
			}
		}
		gauge(members, float64(n), status)
	}
	// Names need not be unique; ids are, and the lower one has the name.
	slices.SortFunc(all, func(x, y control.Member) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID))
	})
	last, n := "", 0
	for _, m := range all {
		if m.Self || m.RTTMS <= 0 || m.Status == "dead" || m.Status == "left" || m.Name == last || n == maxPeers {
			continue
		}
		last, n = m.Name, n+1
		gauge(roundTrip, m.RTTMS/1000, strings.ToValidUTF8(m.Name, "?"))
	}
}

// collectJobs leaves jobs out while the loop does not answer.
func (c *collector) collectJobs(gauge gauges) {
	ctx, cancel := context.WithTimeout(context.Background(), jobPatience)
	defer cancel()
	all, err := c.source.Jobs(ctx, 0)
	if err != nil {
		return
	}
	for _, j := range all {
		gauge(paused, truth(j.Paused), j.Name)
		if !j.LastSuccess.IsZero() {
			gauge(success, seconds(j.LastSuccess), j.Name)
		}
		if !j.Due.IsZero() {
			gauge(due, seconds(j.Due), j.Name)
		}
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
