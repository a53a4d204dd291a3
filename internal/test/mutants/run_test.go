package mutants

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// How long a mutant may live: so many schedules, or so long.
const (
	maxSeeds    = 2000
	maxPlaying  = 60 * time.Second
	maxDirected = 40 * time.Second
	maxPackage  = 4 * time.Minute // all tests of one that starts processes
	maxKiB      = 2 << 20         // of address space: some mutants never end
)

// broad are the tests of packages election, jobs and sim that compare with what was
// written down, or play schedules of their own. They are no test of one rule.
const broad = "^(TestSchedules|TestTranscript|TestSeeds|TestWhateverIsAcceptedLeads|TestJobs(Are|Do)|TestLargeFailover|TestOptions|TestDifferentSeeds)"

// result is what became of one mutant.
type result struct {
	m      *mutant
	seed   uint64 // the first schedule that broke; 0: none did
	broke  string // what it broke
	played uint64 // schedules, that one included
	failed []string
	missed []string // tests named in its text that did not fail
	took   time.Duration
}

func (r *result) isCaught() bool { return r.seed != 0 || len(r.failed) > 0 }

// catcher is what a mutant is tried on.
type catcher uint8

const (
	byBoth catcher = iota
	bySchedules
	byTests
)

// runner builds and runs mutants. The code as it is, is its measure: what fails
// there too catches nothing.
type runner struct {
	t      *testing.T
	dir    string            // of the binaries
	self   string            // this test's binary, which has no overlay
	plain  map[string]string // of a package, the binary of its tests as it is
	fails  map[string]bool   // "package test" that fail as it is
	broken map[string]bool   // "mode seed" that break as it is
}

func newRunner(t *testing.T) *runner {
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find this test's binary: %v", err)
	}
	return &runner{t: t, dir: t.TempDir(), self: self, plain: map[string]string{}, fails: map[string]bool{}, broken: map[string]bool{}}
}

// build makes a package's test binary, with an overlay if there is one. It gives
// "" for a package without tests.
func (r *runner) build(name, pkg, overlay string) (string, error) {
	binary := filepath.Join(r.dir, name+"-"+strings.ReplaceAll(pkg, "/", "-"))
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary} // linked without symbols: half the time
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	build := exec.Command("go", append(args, "./"+pkg)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ./%s: %w\n%s", pkg, err, out)
	}
	if _, err := os.Stat(binary); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return binary, nil
}

// overlay writes the mutant's files and the list by which the toolchain finds
// them.
func (r *runner) overlay(m *mutant) (string, error) {
	changed, err := m.apply()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range changed {
		original, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(r.dir, m.name+"-"+strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(replace[original], text, 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.dir, m.name+".json")
	return path, os.WriteFile(path, list, 0o600)
}

// run says what catches a mutant: schedules, directed tests, or both.
func (r *runner) run(m *mutant, by catcher) *result {
	r.t.Helper()
	began := time.Now()
	overlay, err := r.overlay(m)
	if err != nil {
		r.t.Errorf("%s: %v", m.name, err)
		return &result{m: m}
	}
	res := &result{m: m}
	if by != byTests && m.isPlayed() {
		r.play(res, overlay)
	}
	if by != bySchedules {
		r.runDirected(res, overlay)
	}
	res.took = time.Since(began)
	return res
}

// runDirected runs the tests that have to catch the mutant. If its text names none, they are all of
// the packages. What fails anyway catches nothing.
func (r *runner) runDirected(res *result, overlay string) {
	only := ""
	if len(res.m.tests) > 0 {
		only = "^(" + strings.Join(res.m.tests, "|") + ")$"
	}
	for _, pkg := range res.m.tested() {
		binary, err := r.build(res.m.name, pkg, overlay)
		if err != nil {
			r.t.Errorf("%s: %v", res.m.name, err)
			return
		}
		failed := r.directed(binary, pkg, only)
		_ = os.Remove(binary)
		for _, name := range failed {
			if !r.failsAnyway(pkg, name) {
				res.failed = append(res.failed, name)
			}
		}
	}
	for _, name := range res.m.tests {
		if !slices.Contains(res.failed, name) {
			res.missed = append(res.missed, name)
		}
	}
}

// failsAnyway runs one directed test without any mutant, once.
func (r *runner) failsAnyway(pkg, name string) bool {
	key := pkg + " " + name
	if fails, known := r.fails[key]; known {
		return fails
	}
	binary, isBuilt := r.plain[pkg]
	if !isBuilt {
		var err error
		if binary, err = r.build("plain", pkg, ""); err != nil {
			r.t.Fatalf("the code as it is: %v", err)
		}
		r.plain[pkg] = binary
	}
	r.fails[key] = len(r.directed(binary, pkg, "^"+name+"$")) > 0
	if r.fails[key] {
		r.t.Logf("%s fails without any mutant, and counts for nothing here", name)
	}
	return r.fails[key]
}

// copyOf gives a copy of a package's directory for its tests to run in, with the stories where they
// are looked for: package rapid writes what failed to where it stands.
func (r *runner) copyOf(pkg string) (string, error) {
	dir := filepath.Join(r.dir, "copy", pkg)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	stories, err := filepath.Abs(filepath.Join(root, "testdata"))
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, pkg))); err != nil {
		return "", err
	}
	if err := os.Symlink(stories, filepath.Join(r.dir, "copy", "testdata")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// limited is a command that cannot take the machine's memory.
func limited(ctx context.Context, binary string, args ...string) *exec.Cmd {
	shell := []string{"-c", fmt.Sprintf("ulimit -v %d; exec \"$@\"", maxKiB), "sh", binary}
	return exec.CommandContext(ctx, "/bin/sh", append(shell, args...)...)
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
var startedTest = regexp.MustCompile(`(?m)^=== RUN   (\w+)`)

// directed gives a package's tests that fail, of those that match only, if it is not
// empty. One that panics or never ends takes the others after it with it. No binary has none.
func (r *runner) directed(binary, pkg, only string) []string {
	if binary == "" {
		return nil
	}
	most := maxDirected
	if only == "" {
		most = maxPackage
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), most)
	defer cancel()
	tests := limited(ctx, binary, "-test.v", "-test.run", only, "-test.skip", broad, "-test.timeout", most.String())
	dir, err := r.copyOf(pkg)
	if err != nil {
		r.t.Fatal(err)
	}
	tests.Dir = dir
	out, err := tests.CombinedOutput()
	var failed []string
	for _, found := range failedTest.FindAllSubmatch(out, -1) {
		failed = append(failed, string(found[1]))
	}
	if started := startedTest.FindAllSubmatch(out, -1); err != nil && len(failed) == 0 && len(started) > 0 {
		failed = append(failed, string(started[len(started)-1][1]))
	}
	return failed
}

// play plays schedules with the mutant until one breaks that does not break
// without it.
func (r *runner) play(res *result, overlay string) { r.playTo(res, overlay, maxSeeds) }

func (r *runner) playTo(res *result, overlay string, last uint64) {
	binary, err := r.build(res.m.name, "internal/test/mutants", overlay)
	if err != nil {
		r.t.Errorf("%s: %v", res.m.name, err)
		return
	}
	defer os.Remove(binary)
	ctx, cancel := context.WithTimeout(r.t.Context(), maxPlaying)
	defer cancel()
	for line := range r.lines(ctx, binary, res.m.modes, 1, last) {
		word, rest, _ := strings.Cut(line, " ")
		number, broke, _ := strings.Cut(rest, " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || (word != "broken" && word != "held") {
			continue
		}
		res.played = seed
		if word == "broken" && !r.breaksAnyway(res.m.modes, seed) {
			res.seed, res.broke = seed, broke
			return
		}
	}
}

// breaksAnyway plays one schedule without any mutant.
func (r *runner) breaksAnyway(mode string, seed uint64) bool {
	key := fmt.Sprintf("%s %d", mode, seed)
	if broke, known := r.broken[key]; known {
		return broke
	}
	r.broken[key] = false
	for line := range r.lines(r.t.Context(), r.self, mode, seed, seed) {
		if strings.HasPrefix(line, "broken ") {
			r.broken[key] = true
		}
	}
	return r.broken[key]
}

// lines gives what TestPlay says in a process of its own, which ends when nobody
// listens any more.
func (r *runner) lines(ctx context.Context, binary, mode string, first, last uint64) func(func(string) bool) {
	return func(yield func(string) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		player := limited(ctx, binary, "-test.run", "^TestPlay$", "-test.timeout", (2 * maxPlaying).String())
		player.Env = append(os.Environ(), fmt.Sprintf("BULLY_PLAY=%d-%d", first, last), "BULLY_PLAY_MODE="+mode, "GOMAXPROCS=1", "GOGC=400")
		out, err := player.StdoutPipe()
		if err == nil {
			err = player.Start()
		}
		if err != nil {
			r.t.Errorf("play: %v", err)
			return
		}
		for in := bufio.NewScanner(out); in.Scan() && yield(in.Text()); {
		}
		cancel()
		_, _ = io.Copy(io.Discard, out)
		_ = player.Wait() // it was killed, or a schedule broke: neither is news
	}
}
