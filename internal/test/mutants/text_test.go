package mutants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// root is the module's directory, from this package's.
const root = "../../.."

// mutant is a rule taken out.
type mutant struct {
	name  string
	rule  string // its number in docs/protocol.md, or the document that states it
	out   string // what the rule says
	tests []string
	in    []string // packages of these tests; empty: those of the changed files
	modes string   // of the schedules that are played: "available", "quorum", "" (both) or "none"
	edits []edit
}

// edit replaces lines of a file that occur in it exactly once.
type edit struct{ file, old, new string }

// readMutants gives all mutants of testdata/mutants, sorted by name.
func readMutants(t *testing.T) []*mutant {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "testdata", "mutants", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var out []*mutant
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		out = append(out, m)
	}
	return out
}

func readMutant(path string) (*mutant, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &mutant{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	archive := txtar.Parse(b)
	if err := m.parseHead(string(archive.Comment)); err != nil {
		return nil, err
	}
	return m, m.parseEdits(archive.Files)
}

// parseHead reads the lines "rule: …", "out: …" and so on.
func (m *mutant) parseHead(text string) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "rule":
			m.rule = value
		case "out":
			m.out = value
		case "tests":
			m.tests = strings.Fields(value)
		case "in":
			m.in = strings.Fields(value)
		case "schedules":
			m.modes = value
		default:
			return fmt.Errorf("head: %q is neither rule, out, tests, in nor schedules", line)
		}
	}
	if m.rule == "" || m.out == "" {
		return fmt.Errorf("head: rule or out is missing")
	}
	return nil
}

// parseEdits reads the pairs "-- old FILE --", "-- new --".
func (m *mutant) parseEdits(files []txtar.File) error {
	if len(files) == 0 || len(files)%2 != 0 {
		return fmt.Errorf("sections come in pairs, of which there must be one")
	}
	for i := 0; i < len(files); i += 2 {
		name, isOld := strings.CutPrefix(files[i].Name, "old ")
		if !isOld || files[i+1].Name != "new" {
			return fmt.Errorf("sections %q and %q are not old and new", files[i].Name, files[i+1].Name)
		}
		m.edits = append(m.edits, edit{file: name, old: string(files[i].Data), new: string(files[i+1].Data)})
	}
	return nil
}

// apply gives the changed files' contents by their name from the module's root.
func (m *mutant) apply() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, e := range m.edits {
		text, isChanged := out[e.file]
		if !isChanged {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = b
		}
		if n := bytes.Count(text, []byte(e.old)); n != 1 || !startsLine(text, e.old) {
			return nil, fmt.Errorf("%s has these lines %d times, where once is needed:\n%s", e.file, n, e.old)
		}
		out[e.file] = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
	}
	return out, nil
}

func startsLine(text []byte, old string) bool {
	at := bytes.Index(text, []byte(old))
	return at == 0 || at > 0 && text[at-1] == '\n'
}

// packages gives the directories of the changed files.
func (m *mutant) packages() []string {
	seen := map[string]bool{}
	var out []string
	for _, e := range m.edits {
		if dir := filepath.Dir(e.file); !seen[dir] {
			seen[dir] = true
			out = append(out, dir)
		}
	}
	return out
}

// simulated are the directories that package sim plays, and whatever is below them.
var simulated = []string{"election", "internal/jobs", "internal/sim", "wire"}

// isSimulated reports whether the simulator plays a changed file.
func (m *mutant) isSimulated() bool {
	return slices.ContainsFunc(m.packages(), func(dir string) bool {
		return slices.ContainsFunc(simulated, func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") })
	})
}

// isPlayed reports whether schedules can break what the mutant does: the simulator drives hooks.Lanes, too.
func (m *mutant) isPlayed() bool {
	return (m.isSimulated() || slices.Contains(m.packages(), "hooks")) && m.modes != "none"
}

// tested gives the packages whose tests have to catch the mutant. All of the election is
// tested in package election.
func (m *mutant) tested() []string {
	if len(m.in) > 0 {
		return m.in
	}
	dirs := m.packages()
	if m.isSimulated() && !slices.Contains(dirs, "internal/jobs") {
		dirs = append(dirs, "election")
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
