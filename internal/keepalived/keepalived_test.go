package keepalived

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/bully-agent/bully-agent/internal/config"
)

var update = flag.Bool("update", false, "write what is made of the samples to testdata")

// samples are the configurations of testdata, by their names.
func samples(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d samples, %v", len(paths), err)
	}
	return paths
}

// made is what a file comes to.
func made(path string) (agents []Agent, file []*Statement, err error) {
	if file, err = Read(path, Source{ID: "main"}); err == nil {
		agents, err = Convert(file)
	}
	return agents, file, err
}

// written is all that is said of a file.
func written(agents []Agent, notes []Note) string {
	var b strings.Builder
	for _, a := range agents {
		fmt.Fprintf(&b, "== %s\n%s", a.Name, a.TOML("keepalived.conf"))
	}
	b.WriteString("== notes\n")
	for _, n := range notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

// What is made of each sample is what the golden file has.
func TestSamples(t *testing.T) {
	for _, path := range samples(t) {
		agents, file, err := made(path)
		if err != nil {
			t.Error(err)
			continue
		}
		golden := strings.TrimSuffix(path, ".conf") + ".golden"
		got := written(agents, Notes(file))
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: -want +got\n%s", path, diff)
		}
	}
}

// What is made is a configuration, and an agent takes it.
func TestWhatIsMadeIsAConfiguration(t *testing.T) {
	for _, path := range samples(t) {
		agents, _, err := made(path)
		if err != nil {
			t.Error(err)
		}
		for _, a := range agents {
			name := filepath.Join(t.TempDir(), "agent.toml")
			if err := os.WriteFile(name, []byte(a.TOML(path)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Source{Path: name}); err != nil {
				t.Errorf("%s, %s: %v\n%s", path, a.Name, err, a.TOML(path))
			}
		}
	}
}

// each visits all statements that are not inside one that is left out, with the block that each is in.
func each(block *[]*Statement, visit func(block *[]*Statement, i int)) {
	for i, s := range *block {
		visit(block, i)
		if s.fate.kind != leftOut {
			each(&s.Block, visit)
		}
	}
}

// needless are statements that say what is so here in any case.
var needless = map[string]string{
	"global_defs":            "its lines count",
	"enable_script_security": "always so as root",
	"preempt":                "the default",
	"init_fail":              "always so",
	"priority 100":           "the default",
}

// isHollow: all that is in the block is left out.
func isHollow(s *Statement) bool {
	return s.hasBlock && !slices.ContainsFunc(s.Block, func(t *Statement) bool { return t.fate.kind != leftOut })
}

// Each significant line of the text is judged; each that is not named has its say in what is made: without it another
// configuration comes out, or none.
func TestEachLineIsCarriedOverOrNamed(t *testing.T) {
	named, carriedOver := 0, 0
	for _, path := range samples(t) {
		agents, file, err := made(path)
		if err != nil {
			t.Fatal(err)
		}
		covered := map[string]bool{}
		for _, n := range Notes(file) {
			for line := n.First; line <= n.Last; line++ {
				covered[fmt.Sprintf("%s:%d", n.File, line)] = true
			}
		}
		whole := written(agents, nil)
		each(&file, func(block *[]*Statement, i int) {
			s := (*block)[i]
			at := fmt.Sprintf("%s:%d", s.File, s.Line)
			if covered[at] {
				named++
				return
			}
			covered[at] = true
			carriedOver++
			if needless[strings.Join(s.Words, " ")] != "" || isHollow(s) || strings.HasPrefix(s.Name(), "include") || strings.HasPrefix(s.Name(), "$") {
				return // what is included or defined is seen where it stands
			}
			if without(t, path, s) == whole {
				t.Errorf("%s: %q is neither carried over nor named", at, s.Words)
			}
		})
		for _, at := range significant(t, path) {
			if !covered[at] {
				t.Errorf("%s: nobody has judged it", at)
			}
		}
	}
	if named < 60 || carriedOver < 100 {
		t.Errorf("%d lines are named and %d carried over: these samples show little", named, carriedOver)
	}
}

// without is what is made of a file that lacks one statement.
func without(t *testing.T, path string, lacks *Statement) string {
	t.Helper()
	file, err := Read(path, Source{ID: "main"})
	if err != nil {
		t.Fatal(err)
	}
	agents, err := Convert(drop(file, lacks))
	if err != nil {
		return err.Error()
	}
	return written(agents, nil)
}

func drop(block []*Statement, lacks *Statement) []*Statement {
	block = slices.DeleteFunc(block, func(s *Statement) bool {
		return s.File == lacks.File && s.Line == lacks.Line && slices.Equal(s.Words, lacks.Words)
	})
	for _, s := range block {
		s.Block = drop(s.Block, lacks)
	}
	return block
}

// significant are the lines of a file, and of those that it includes, that are more than a comment or a brace. It reads them
// in another way than the reader does.
func significant(t *testing.T, path string) (at []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(content), "\n") {
		code := line
		if !strings.Contains(line, `"`) {
			code = line[:strings.IndexAny(line+"#", "#!")]
		}
		if strings.Trim(code, "{} \t") != "" {
			at = append(at, fmt.Sprintf("%s:%d", path, i+1))
		}
		if word, pattern, _ := strings.Cut(strings.TrimSpace(code), " "); strings.HasPrefix(word, "include") {
			found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
			for _, f := range found {
				at = append(at, significant(t, f)...)
			}
		}
	}
	return at
}

// converted is what a text comes to.
func converted(t *testing.T, text string) []Agent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keepalived.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	agents, _, err := made(path)
	if err != nil {
		t.Fatal(err)
	}
	return agents
}

// Several agents have names of instances, each its own, whatever keepalived calls them.
func TestNamesOfSeveralAgents(t *testing.T) {
	long := strings.Repeat("n", 32)
	var text strings.Builder
	for _, name := range []string{"agent", "AGENT", "web.toml", "WEB-toml", "DB", "db", long, long + "1", long + "2", long[:30] + "-2"} {
		fmt.Fprintf(&text, "vrrp_instance %s {\n}\n", name)
	}
	var names []string
	for _, a := range converted(t, text.String()) {
		if err := config.CheckInstance(a.Name); err != nil {
			t.Error(err)
		}
		names = append(names, a.Name)
	}
	want := []string{"agent-2", "AGENT-3", "web-toml", "WEB-toml-2", "DB", "db-2", long, long[:30] + "-2", long[:30] + "-3", long[:30] + "-4"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if alone := converted(t, "vrrp_instance agent {\n}\n"); alone[0].Name != "agent" {
		t.Errorf("a single one is called %s", alone[0].Name)
	}
}

// An agent whose others have IPv6 listens there, too.
func TestListensWhereTheOthersAre(t *testing.T) {
	const four, six = "unicast_peer {\n 192.0.2.2\n}\n", "unicast_peer {\n 2001:db8::2\n}\n"
	one, other := "vrrp_instance a {\nvirtual_router_id 1\n%s}\n", "vrrp_instance b {\nvirtual_router_id 2\n}\n"
	for _, tt := range []struct{ text, want string }{
		{fmt.Sprintf(one, four), "0.0.0.0:7950"},
		{fmt.Sprintf(one, six), "[::]:7950"},
		{fmt.Sprintf(one, "unicast_src_ip 2001:db8::1\n"), "[::]:7950"},
		{fmt.Sprintf(one, four) + other, "0.0.0.0:27951"},
		{fmt.Sprintf(one, six) + other, "[::]:27951"},
		{fmt.Sprintf(one, "unicast_src_ip 2001:db8::1\n") + other, "[::]:27951"},
	} {
		path := filepath.Join(t.TempDir(), "agent.toml")
		if err := os.WriteFile(path, []byte(converted(t, tt.text)[0].TOML("keepalived.conf")), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := config.Load(config.Source{Path: path}); err != nil || c.Text("network.bind") != tt.want {
			t.Errorf("%v, %v, expected %s, of\n%s", c, err, tt.want, tt.text)
		}
	}
}

// Braces need no space around them, as keepalived reads them; those of a string are its own, as is a parameter's that nothing defines.
func TestBracesNeedNoSpace(t *testing.T) {
	const want = "vrrp_instance a {\n priority 7\n virtual_ipaddress {\n 192.0.2.1/24\n }\n notify \"/n {x}\"\n}\n"
	for _, text := range []string{
		"vrrp_instance a{\n priority 7\n virtual_ipaddress{\n 192.0.2.1/24\n }\n notify \"/n {x}\"\n}\n",
		"vrrp_instance a {priority 7\n virtual_ipaddress {192.0.2.1/24}\n notify \"/n {x}\"}\n",
		"vrrp_instance a\n{priority 7\n virtual_ipaddress{192.0.2.1/24}notify \"/n {x}\"\n}\n",
	} {
		if diff := cmp.Diff(converted(t, want)[0].TOML("x"), converted(t, text)[0].TOML("x")); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
	words, err := split(`script /x${y}z{"{"}`)
	if diff := cmp.Diff([]string{"script", "/x${y}z", "{", quoted + "{", "}"}, words); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

// Bad input is one line that says where and what.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "comment": "# nothing\n", "binary": "vrrp\x00", "latin": "# nothing\n# caf\xe9\n", "nginx": "user www-data;\nhttp {\n}\n",
		"toml": "a = 1\nb = \"\"\"\n\"\"\"\n", "lvs": "virtual_server 10.0.0.1 80 {\n}\n", "open": "vrrp_instance a {\n  priority 1\n", "shut": "}\n", "bare": "{\n",
		"twice": "vrrp_instance a {\n}\n{\n}\n", "quote": "global_defs\nvrrp_instance a {\n  notify \"x\n}\n", "loop": "include loop\n", "a": "\ninclude b\n", "b": "include a\n",
		"missing": "include nowhere.conf\n", "nothing": "include\n", "brace": "include {a,b}\n", "big": strings.Repeat("# long\n", 200000),
		"deep": "global_defs\n" + strings.Repeat("a {\n", 200), "zero": "include /dev/zero\n", "pipe": "include fifo\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"zero":    "/dev/zero: it is no file: expected a keepalived.conf",
		"pipe":    "DIR/fifo: it is no file: expected a keepalived.conf",
		"empty":   "it says nothing: expected a keepalived.conf",
		"comment": "it says nothing: expected a keepalived.conf",
		"binary":  "DIR/binary: it is no text: expected a keepalived.conf",
		"latin":   "DIR/latin: line 2 is not UTF-8: expected a keepalived.conf; if it is one in Latin-1: iconv -f latin1 -t utf-8",
		"nginx":   `it is no keepalived.conf: line 1 begins with "user", expected global_defs, vrrp_script, vrrp_instance or the like`,
		"toml":    `DIR/toml: it is no keepalived.conf: line 1 begins with "a", expected global_defs, vrrp_script, vrrp_instance or the like`,
		"lvs":     "it has no vrrp_instance: there is nothing to elect a leader for",
		"open":    "DIR/open:1: the block of vrrp_instance is not closed: expected a }",
		"shut":    "DIR/shut:1: a } without a { before it: is this a keepalived.conf?",
		"bare":    "DIR/bare:1: a { without a name before it: is this a keepalived.conf?",
		"twice":   "DIR/twice:3: a { without a name before it: is this a keepalived.conf?",
		"quote":   `DIR/quote:3: a " has no second one on its line`,
		"loop":    "DIR/loop: it includes itself: DIR/loop includes DIR/loop",
		"a":       "DIR/a: it includes itself: DIR/a includes DIR/b includes DIR/a",
		"missing": "DIR/missing:1: include nowhere.conf: no such file",
		"nothing": "DIR/nothing:1: include: expected one file",
		"brace":   "DIR/brace:1: include {a,b}: expected a file, or a pattern of *, ? and []",
		"big":     "DIR/big: it has more than 1048576 bytes: expected a keepalived.conf",
		"deep":    "DIR/deep:102: a { without a name before it: is this a keepalived.conf?",
		"none":    "DIR/none: no such file",
		".":       "DIR: is a directory",
	} {
		_, _, err := made(filepath.Join(dir, name))
		if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != want {
			t.Errorf("%s: got %v, expected %s", name, err, want)
		}
	}
}

// What begins a comment does not in a string, nor after a backslash, which then is the other character's.
func TestComments(t *testing.T) {
	for line, want := range map[string]string{
		"notify_master /etc/up # when it leads": "notify_master /etc/up",
		"notify_master /etc/up! at once":        "notify_master /etc/up",
		`notify_master "/etc/up #1" # one`:      `notify_master /etc/up #1`,
		`notify_master /etc/up\#1 # one`:        `notify_master /etc/up#1`,
		`notify_master /etc/up\!`:               `notify_master /etc/up!`,
		`notify_master /etc/up\\#1`:             `notify_master /etc/up\`,
		`notify_master "/etc/\"#1" # one`:       `notify_master /etc/"#1`,
	} {
		path := filepath.Join(t.TempDir(), "keepalived.conf")
		if err := os.WriteFile(path, []byte("vrrp_instance a {\n"+line+"\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Read(path, Source{})
		if err != nil || len(file) != 1 || len(file[0].Block) != 1 || strings.Join(file[0].Block[0].Words, " ") != want {
			t.Errorf("%s: %v, expected %q", line, err, want)
			for _, s := range file {
				for _, inner := range s.Block {
					t.Logf("%q", inner.Words)
				}
			}
		}
	}
}

// A byte order mark is none of the file's, and a line does not grow without bound by its parameters.
func TestOddTexts(t *testing.T) {
	dir := t.TempDir()
	bomb := "$a=" + strings.Repeat("x", 60_000) + "\nvrrp_instance a {\n notify \"" + strings.Repeat("${a}", 1000) + "\"\n}\n"
	for name, text := range map[string]string{"mark": "\ufeffvrrp_instance a {\n}\n", "bomb": bomb} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Read(path, Source{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range file {
			for _, inner := range s.Block {
				if size := len(strings.Join(inner.Words, " ")); size > 2*maxLine {
					t.Errorf("%s: a line of %d bytes", name, size)
				}
			}
		}
	}
}

// Many instances of one id have ports, all of which there are.
func TestManyInstancesHavePorts(t *testing.T) {
	c := &converter{}
	agents := make([]Agent, 400)
	c.ids = make([]int, len(agents))
	for i := range agents {
		agents[i].Name, c.ids[i] = fmt.Sprint("a", i), 51
	}
	c.part(agents)
	seen := map[int]bool{}
	for _, a := range agents {
		if a.Port <= firstPort || a.Port > math.MaxUint16 || seen[a.Port] {
			t.Fatalf("%s has port %d", a.Name, a.Port)
		}
		seen[a.Port] = true
	}
}

// Whatever a file holds, reading it ends, each statement is judged, and what is made is TOML.
func FuzzConvert(f *testing.F) {
	for _, path := range samples(f) {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(path string) ([]byte, error) {
			if path == "main.conf" {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		file, err := Read("main.conf", Source{ID: "main", ReadFile: read, Glob: func(string) ([]string, error) { return nil, nil }})
		if err != nil {
			return
		}
		agents, err := Convert(file)
		if err != nil {
			return
		}
		each(&file, func(block *[]*Statement, i int) {
			if s := (*block)[i]; s.fate.kind == unjudged {
				t.Errorf("line %d: %q is not judged", s.Line, s.Words)
			}
		})
		for _, a := range agents {
			if err := config.CheckInstance(a.Name); err != nil && len(agents) > 1 {
				t.Error(err)
			}
			var into map[string]any
			if err := toml.Unmarshal([]byte(a.TOML("main.conf")), &into); err != nil {
				var where *toml.DecodeError
				errors.As(err, &where)
				t.Errorf("%v\n%s", where, a.TOML("main.conf"))
			}
		}
		_ = Notes(file)
	})
}

// What instances of a group track, or a group and its instances, is one check of their agent, run once. A weight counts where the
// group alone tracks it.
func TestGroupTracksOnce(t *testing.T) {
	for name, c := range map[string]struct {
		weight, inGroup, inInstances string // weight of the vrrp_script; what tracks it
		penalty, priority            int
	}{
		"instances":                        {"", "", "up", 0, 100},
		"the group and its instances":      {"", "up", "up", 0, 100},
		"with a weight that adds":          {"weight 20", "up", "up", 0, 100},
		"with the group's own weight":      {"", "up weight -20", "up", 0, 100},
		"the group alone":                  {"weight -20", "up", "", -20, 100},
		"the group alone, a weight to add": {"weight 20", "up", "", -20, 120},
	} {
		path := filepath.Join(t.TempDir(), "keepalived.conf")
		text := "vrrp_script up {\nscript \"ping -c 1 192.0.2.1\"\n" + c.weight + "\n}\nvrrp_sync_group G {\ngroup {\nA\nB\n}\n" +
			"track_script {\n" + c.inGroup + "\n}\n}\n"
		for _, instance := range []string{"A", "B"} {
			text += "vrrp_instance " + instance + " {\ntrack_script {\n" + c.inInstances + "\n}\n}\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agents, _, err := made(path)
		if err != nil || len(agents) != 1 || len(agents[0].Checks) != 1 {
			t.Errorf("%s: agents %+v, error %v; want one with one check", name, agents, err)
			continue
		}
		if a := agents[0]; a.Checks[0].Name != "up" || a.Checks[0].Penalty != c.penalty || a.Priority != c.priority {
			t.Errorf("%s: priority %d, check %+v; want %d and a penalty of %d", name, a.Priority, a.Checks[0], c.priority, c.penalty)
		}
	}
}
