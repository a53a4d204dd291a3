package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// figures are the times and counts that the agents are built to, each with the lab that shows it. `make figures` runs
// them all, in three hours; `make figures ROW=kill-quorum-lan` one of them.
//
// The lose hooks of cut rows take half the stop budget.
var figures = []struct {
	name    string
	args    string
	targets []target
}{
	{"kill-available-lan", "--fault kill", []target{p50(30), p95(80)}},
	{"kill-available-fast", "--fault kill --profile fast", []target{p50(25)}},
	{"kill-quorum-lan", "--fault kill --mode quorum", []target{p50(30), p95(80)}},
	{"kill-quorum-fast", "--fault kill --mode quorum --profile fast", []target{p50(30)}},
	{"cut-available-lan", "--fault cut --lose-hook 50ms", []target{p50(250), p95(310), letGoFirst}},
	{"cut-available-fast", "--fault cut --profile fast --lose-hook 20ms", []target{p50(130), letGoFirst}},
	{"cut-quorum-lan", "--fault cut --mode quorum --lose-hook 50ms", []target{p50(250), p95(310), letGoFirst}},
	{"cut-quorum-fast", "--fault cut --mode quorum --profile fast --lose-hook 20ms", []target{p50(130), letGoFirst}},
	{"stop-available-lan", "--fault stop", []target{p50(25), p95(60), letGoFirst}},
	{"stop-quorum-lan", "--fault stop --mode quorum", []target{p50(25), p95(60), letGoFirst}},
	{"handover-available-lan", "--fault handover", []target{p50(25), p95(60), letGoFirst}},
	{"handover-quorum-lan", "--fault handover --mode quorum", []target{p50(25), p95(60), letGoFirst}},
	{"carrier-available-lan", "--fault carrier", []target{letGoP95(20), letGoFirst}},
	{"carrier-quorum-lan", "--fault carrier --mode quorum", []target{letGoP95(20), letGoFirst}},
	{"loss10-available-lan", "--watch 10m --loss 10", []target{changes(0)}},
	{"loss10-quorum-lan", "--watch 10m --loss 10 --mode quorum", []target{changes(0)}},
	{"loss20-available-lan", "--watch 10m --loss 20", []target{changes(0)}},
	{"loss20-quorum-lan", "--watch 10m --loss 20 --mode quorum", []target{changes(0)}},
	{"weather10-available-lan", "--watch 10m --loss 10 --delay 20ms --jitter 10ms", []target{changes(0)}},
	{"weather10-quorum-lan", "--watch 10m --loss 10 --delay 20ms --jitter 10ms --mode quorum", []target{changes(0)}},
	{"weather20-available-lan", "--watch 10m --loss 20 --delay 20ms --jitter 10ms", []target{changes(0)}},
	{"weather20-quorum-lan", "--watch 10m --loss 20 --delay 20ms --jitter 10ms --mode quorum", []target{changes(0)}},
	{"loss10-available-fast", "--watch 2m --loss 10 --profile fast", []target{changes(0)}},
	{"loss20-available-fast", "--watch 2m --loss 20 --profile fast", []target{changes(1)}},
	{"busy-available-lan", "--watch 1m --busy 4", []target{changes(0)}},
	{"busy-available-fast", "--watch 1m --busy 4 --profile fast", []target{changes(0)}},
	{"busy16-available-fast", "--watch 10m --busy 16 --profile fast --scheduling realtime", []target{changes(0)}},
	{"busy16-available-lan", "--watch 10m --busy 16 --scheduling realtime", []target{changes(0)}},
	{"busy16-quorum-lan", "--watch 10m --busy 16 --scheduling realtime --mode quorum", []target{changes(0)}},
	{"busy16-loss20-available-lan", "--watch 2m --busy 16 --loss 20 --delay 20ms --jitter 10ms --scheduling realtime", []target{changes(0)}},
	{"busy16-normal-fast", "--watch 1m --busy 16 --profile fast --scheduling normal", []target{changes(60)}}, // what it is without
	{"busy16-normal-lan", "--watch 1m --busy 16 --scheduling normal", []target{changes(20)}},
}

const figuresRepeat = 50

// target is one figure of a row and its bound.
type target struct {
	what  string
	bound string
	// read takes the figure out of a report, and says whether it is within the bound.
	read func(jsonReport) (figure string, met bool)
}

func p50(ms float64) target {
	return timeTarget("p50", ms, func(t jsonTimes) float64 { return t.P50MS })
}

func p95(ms float64) target {
	return timeTarget("p95", ms, func(t jsonTimes) float64 { return t.P95MS })
}

func letGoP95(ms float64) target {
	return timeTarget("own lose hook p95", ms, func(t jsonTimes) float64 { return t.LetGo.P95MS })
}

func timeTarget(what string, bound float64, read func(jsonTimes) float64) target {
	return target{what, fmt.Sprintf("<= %g ms", bound), func(r jsonReport) (string, bool) {
		ms := read(r.Samples[0])
		return fmt.Sprintf("%.1f ms", ms), ms <= bound
	}}
}

var letGoFirst = target{"old let go first", "all", func(r jsonReport) (string, bool) {
	t := r.Samples[0]
	return fmt.Sprintf("%d of %d", *t.LetGoFirst, t.Runs), *t.LetGoFirst == t.Runs
}}

func changes(most int) target {
	return target{"leader changes", fmt.Sprintf("<= %d", most), func(r jsonReport) (string, bool) {
		return strconv.Itoa(r.Watch.Changes), r.Watch.Changes <= most
	}}
}

// peaceFigures are what a cluster costs while nothing happens, all from one look at it.
var peaceFigures = []struct {
	name  string
	what  string
	unit  string
	bound float64
	read  func(peace) float64
}{
	{"peace-frames", "datagrams a second", "", 190, func(p peace) float64 { return p.frames }},
	{"idle-cpu", "of a core, follower", "%", 0.7, func(p peace) float64 { return p.follower }},
	{"idle-cpu-leader", "of a core, leader", "%", 1.2, func(p peace) float64 { return p.leader }},
	{"idle-pss", "of one host", "MiB", 60, func(p peace) float64 { return p.pss }},
}

// TestFigures takes three hours and wants a machine that does nothing else.
func TestFigures(t *testing.T) {
	if os.Getenv("BULLY_FIGURES") == "" {
		t.Skip("skipped: it takes three hours of a quiet machine; make figures runs it")
	}
	if err := mayUseNamespaces(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("TMPDIR", shortDir(t))
	binary := os.Getenv("BULLY_FIGURES_BINARY")
	if binary == "" {
		binary = buildAgent(t)
	}
	fmt.Printf("%-24s %-20s %12s  %-10s\n", "lab --nodes 5 --netns", "figure", "measured", "target")
	for _, row := range figures {
		t.Run(row.name, func(t *testing.T) {
			report := runLab(t, binary, strings.Fields(row.args))
			for _, target := range row.targets {
				figure, met := target.read(report)
				word := "met"
				if !met {
					word = "NOT MET"
					t.Errorf("%s: %s, expected %s", target.what, figure, target.bound)
				}
				fmt.Printf("%-24s %-20s %12s  %-10s %s\n", row.name, target.what, figure, target.bound, word)
			}
		})
	}
	look := sync.OnceValue(func() peace { return measurePeace(t, binary) })
	for _, row := range peaceFigures {
		t.Run(row.name, func(t *testing.T) {
			figure, word := row.read(look()), "met"
			if figure > row.bound {
				word = "NOT MET"
				t.Errorf("%s: %.2f %s, expected at most %g", row.what, figure, row.unit, row.bound)
			}
			fmt.Printf("%-24s %-20s %12s  %-10s %s\n", row.name, row.what, fmt.Sprintf("%.2f %s", figure, row.unit), fmt.Sprintf("<= %g", row.bound), word)
		})
	}
}

// runLab runs one lab in namespaces. A verdict that a promise was broken fails the test, and has a report all the same.
func runLab(t *testing.T, binary string, args []string) (report jsonReport) {
	t.Helper()
	args = append([]string{"lab", "--nodes", "5", "--netns", "--json"}, args...)
	if slices.Contains(args, "--fault") {
		args = append(args, "--repeat", strconv.Itoa(figuresRepeat))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it takes its agents along
	failed := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%s: %v, %v\n%s", strings.Join(args, " "), failed, err, log.String())
	}
	for _, c := range report.Checks {
		for _, b := range c.Breaches {
			t.Errorf("broken: %s: %s", c.Promise, b)
		}
	}
	if report.Error != "" {
		t.Fatalf("%s: %s\n%s", strings.Join(args, " "), report.Error, log.String())
	}
	return report
}
