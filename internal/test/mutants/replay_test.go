package mutants

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/record"
	"github.com/bully-agent/bully-agent/internal/test/flight"
)

// withoutDrift is the mutant whose program replays.
const withoutDrift = "leader-without-drift"

// A program with another rule than the one that recorded finds that out, at the first
// step whose effects the rule makes others: here, the first lease that a leader shows.
func TestReplayFindsAChangedRule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program anew: not with -short")
	}
	r := newRunner(t)
	m, err := readMutant(filepath.Join(root, "testdata", "mutants", withoutDrift+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := r.overlay(m)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(r.dir, "bully-agent")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	var files []string
	var records []*record.Record
	for i, b := range flight.Records(0, 0, 0) {
		file := filepath.Join(r.dir, fmt.Sprintf("%d.rec", i))
		rec, err := record.Parse(b)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		files, records = append(files, file), append(records, rec)
	}
	want := map[string]string{}
	for line := range record.NewTimeline(records).Lines {
		if _, known := want[line.Host]; !known && strings.Contains(strings.Join(line.Effects, "\n"), "lease until") {
			want[line.Host] = fmt.Sprintf("%s, life 1: step %d at %s differs: at %s it was recorded: ", line.Host, line.Number,
				line.At.Format("2006-01-02 15:04:05.000000"), line.Event)
		}
	}
	replay := exec.Command(program, append([]string{"replay"}, files...)...)
	var said strings.Builder
	replay.Stderr = &said
	var exit *exec.ExitError
	if err := replay.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("replay by the changed program: %v, expected exit code 1", err)
	}
	if len(want) != 2 || strings.Count(said.String(), "\n") != len(want) { // gamma leads, and beta after it
		t.Errorf("expected a line for each of %q, and it says\n%s", want, said.String())
	}
	for _, line := range want {
		if !strings.Contains(said.String(), "error: "+line) {
			t.Errorf("expected %q in\n%s", line, said.String())
		}
	}
	t.Log(said.String())
}
