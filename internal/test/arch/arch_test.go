// Package arch says what may import what.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the module's directory, from this package's.
const root = "../../.."

const module = "github.com/bully-agent/bully-agent"

// layer is one package's place in the design (docs/architecture.md): what of ours it
// may import, and whether it is pure.
type layer struct {
	may  string // our packages, by directory, that it may import
	pure bool   // decides from events and time alone, so that a simulator can drive it
}

// layers is every package. One that is missing here fails the test: a new
// package needs a place.
var layers = map[string]layer{
	".":                      {may: "internal/cli"},
	"internal/cli":           {may: "hooks/hookrun internal/trust agent internal/config internal/control election election/lease internal/durable internal/fence hooks internal/holder internal/key internal/lab internal/reaper internal/sim internal/sim/paper internal/transport internal/realtime internal/reader internal/keeper internal/rights wire internal/screen internal/doctor internal/sdnotify internal/vip internal/peers internal/keepalived internal/manual internal/unit"},
	"internal/unit":          {may: ""},
	"internal/systemd":       {may: ""},
	"internal/peers":         {may: "hooks"},
	"internal/keepalived":    {may: "internal/peers"},
	"internal/manual":        {may: ""},
	"internal/manual/gen":    {may: "internal/cli internal/manual"},
	"internal/lab":           {may: "internal/control internal/key internal/lab/netlab internal/lab/verdict internal/realtime internal/page internal/screen"},
	"internal/page":          {may: ""},
	"internal/test/browser":  {may: ""},
	"internal/screen":        {may: ""},
	"internal/doctor":        {may: "internal/control"},
	"internal/advertise":     {may: "", pure: true},
	"internal/discovery":     {may: "wire"},
	"internal/lab/netlab":    {may: ""},
	"internal/lab/verdict":   {may: "", pure: true},
	"internal/test/attack":   {may: "wire internal/session internal/identity internal/key"},
	"internal/test/boot":     {may: "internal/lab/netlab internal/test/traces"},
	"internal/test/e2e":      {may: ""},
	"internal/test/loopback": {may: ""},
	"internal/test/making":   {may: ""},
	"internal/test/waiting":  {may: ""},
	"internal/config":        {may: "internal/identity internal/trust internal/access agent election membership hooks internal/control internal/jobs internal/key internal/httpd internal/vip internal/systemd internal/discovery internal/advertise"},
	"agent":                  {may: "internal/trust wire election membership internal/transport internal/sealed internal/session internal/key hooks internal/jobs internal/control internal/durable internal/identity internal/reader internal/sidecar internal/metrics election/lease internal/keeper hooks/resourcerun internal/discovery internal/advertise"},
	"membership":             {may: "wire internal/transport internal/session internal/identity"},
	"internal/transport":     {may: ""},
	"internal/session":       {may: "wire internal/key internal/identity", pure: true},
	"internal/sealed":        {may: "wire internal/key internal/identity internal/session internal/transport"},
	"internal/ending":        {may: "", pure: true},
	"internal/trust":         {may: "hooks internal/access"},
	"internal/run":           {may: "hooks internal/ending internal/realtime internal/trust"},
	"hooks":                  {may: "internal/ending", pure: true},
	"hooks/hookrun":          {may: "hooks internal/durable internal/ending internal/holder internal/run internal/trust"},
	"internal/access":        {may: ""},
	"internal/vip":           {may: ""},
	"internal/metrics":       {may: "internal/control"},
	"internal/reader":        {may: "internal/control internal/httpd internal/metrics internal/page internal/realtime internal/rights internal/sidecar"},
	"internal/httpd":         {may: "internal/access internal/places"},
	"internal/places":        {may: ""},
	"internal/holder":        {may: "internal/ending hooks internal/control internal/durable internal/realtime internal/run internal/sidecar"},
	"hooks/resourcerun":      {may: "hooks internal/ending internal/holder internal/run internal/sidecar internal/trust internal/vip internal/systemd"},
	"internal/durable":       {may: "internal/access"},
	"internal/test/crash":    {may: "internal/durable"},
	"internal/fence":         {may: "internal/durable"},
	"internal/identity":      {may: "wire", pure: true},
	"internal/key":           {may: "internal/durable internal/access"},
	"internal/rights":        {may: ""},
	"internal/reaper":        {may: "internal/run"},
	"internal/sdnotify":      {may: "agent"},
	"internal/control":       {may: "internal/durable internal/places"},
	"internal/test/lantest":  {may: "internal/transport"},
	"internal/test/hostile":  {may: ""},
	"internal/test/traces":   {may: ""},
	"internal/test/glass":    {may: ""},
	"internal/test/mutants":  {may: ""},
	"internal/sim":           {may: "wire election election/lease election/quorum hooks internal/ending internal/jobs internal/session internal/identity internal/key", pure: true},
	"internal/sim/paper":     {may: "", pure: true},
	"internal/jobs":          {may: "wire", pure: true},
	"election":               {may: "wire election/quorum election/lease", pure: true},
	"election/lease":         {may: "wire", pure: true},
	"election/quorum":        {may: "wire", pure: true},
	"wire":                   {may: "", pure: true},
	"internal/sidecar":       {may: "internal/durable internal/ending internal/realtime internal/rights"},
	"internal/realtime":      {may: ""},
	"internal/keeper":        {may: "wire internal/reader hooks/hookrun internal/ending hooks internal/run internal/durable internal/realtime internal/sidecar hooks/resourcerun"},
}

// onlyInTests are packages that nothing but tests may import.
var onlyInTests = []string{"internal/test/lantest", "internal/test/hostile", "internal/test/glass", "internal/test/crash", "internal/test/attack",
	"internal/test/traces", "internal/test/browser", "internal/test/boot", "internal/test/loopback", "internal/test/waiting", "internal/test/making"}

// homes says where a dependency may be imported: where its traps are known. A
// package is matched by the longest prefix here; one that matches none fails the
// test, so that no dependency comes in unnoticed. Tests may import anything.
var homes = map[string]string{
	"github.com/hashicorp/memberlist":   "membership internal/sealed", // the last for its interface types
	"github.com/urfave/cli":             "internal/cli",
	"github.com/coreos/go-systemd":      "internal/cli internal/sdnotify", // the journal, and what the service manager is told
	"github.com/godbus/dbus":            "internal/systemd",               // go-systemd's own binding: its Conn believes everybody's signals
	"golang.org/x/term":                 "internal/cli internal/screen",
	"github.com/pelletier/go-toml":      "internal/config",
	"github.com/hashicorp/go-sockaddr":  "internal/config",
	"github.com/netresearch/go-cron":    "internal/jobs",                // its parser alone: no scheduler, no clock
	"github.com/xrash/smetrics":         "internal/config internal/cli", // both suggest what was meant
	"github.com/vishvananda/netlink":    "agent internal/lab/netlab internal/vip",
	"github.com/vishvananda/netns":      "internal/lab/netlab",
	"github.com/hashicorp/go-hclog":     "agent internal/cli internal/control hooks/hookrun hooks/resourcerun internal/run internal/httpd internal/reader internal/lab membership internal/sealed internal/transport internal/keeper",
	"golang.org/x/sys":                  "agent internal/cli internal/config internal/control internal/durable internal/fence hooks/hookrun internal/holder internal/run internal/trust internal/key internal/lab internal/lab/netlab internal/access membership internal/reaper internal/transport internal/realtime internal/keeper internal/reader internal/sidecar internal/rights internal/test/attack internal/test/traces internal/test/glass internal/test/boot internal/vip internal/discovery",
	"golang.org/x/sync":                 "agent internal/cli internal/control internal/lab",
	"golang.org/x/net":                  "internal/discovery internal/vip",
	"golang.org/x/time":                 "membership hooks internal/control internal/discovery internal/httpd internal/keeper internal/reader internal/run", // its token bucket, told the time
	"github.com/prometheus":             "internal/metrics",
	"golang.org/x/crypto":               "wire internal/identity internal/session",
	"github.com/flynn/noise":            "internal/session",
	"go.uber.org/goleak":                "",
	"pgregory.net/rapid":                "",
	"github.com/google/go-cmp":          "",
	"github.com/rogpeppe/go-internal":   "",
	"github.com/cockroachdb/datadriven": "",
}

// impure says what a pure package may not import, and why.
var impure = map[string]string{
	"net":         "it talks to the network; net/netip is fine",
	"os":          "it reads the host",
	"os/exec":     "it starts processes",
	"os/signal":   "it waits for the host",
	"syscall":     "it asks the kernel",
	"sync":        "one loop owns the state, so there is nothing to lock",
	"sync/atomic": "one loop owns the state, so there is nothing to share",
	"context":     "a step returns at once, so there is nothing to cancel",
	"log":         "it says things by effects; the agent logs them",
	"log/slog":    "it says things by effects; the agent logs them",
	"math/rand":   "chance comes from election.Config.Rand, so that a seed repeats a run; that is math/rand/v2",
	"crypto/rand": "chance comes from election.Config.Rand, so that a seed repeats a run",
	"runtime":     "a decision must not depend on the machine",
	"testing":     "it is for tests",
	"unsafe":      "nothing here needs it",
}

// clockFuncs of package time read or wait for the real clock.
var clockFuncs = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

// randMakers of math/rand/v2 make a source of one's own; the other functions of
// the package use a global one, which no seed repeats.
var randMakers = []string{"New", "NewPCG", "NewChaCha8", "NewZipf"}

// clockFile is where the agent reads its clocks.
const clockFile = "agent/clock.go"

// source is one file of ours that is not a test.
type source struct {
	name string // "agent/loop.go"
	dir  string // "agent"; "." at the top
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "deploy") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		all = append(all, source{name: name, dir: path.Dir(name), file: file, fset: fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d source files: the walk is broken", len(all))
	}
	return all
}

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		paths = append(paths, p)
	}
	return paths
}

func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

func TestEachPackageImportsOnlyWhatItsPlaceAllows(t *testing.T) {
	for _, s := range sources(t) {
		l, known := layers[s.dir]
		if !known {
			t.Errorf("%s: package %s has no place in the table of layers: give it one", s.name, s.dir)
			continue
		}
		for _, imported := range s.imports() {
			if complaint := complain(s.dir, l, imported); complaint != "" {
				t.Errorf("%s imports %s: %s", s.name, imported, complaint)
			}
		}
	}
}

func TestOnlyPackagesThatExistAreForTests(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range sources(t) {
		exists[s.dir] = true
	}
	for _, dir := range onlyInTests {
		if !exists[dir] {
			t.Errorf("onlyInTests names %s: there is no such package", dir)
		}
	}
}

// complain says why dir may not import a package; "" if it may.
func complain(dir string, l layer, imported string) string {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		switch {
		case slices.Contains(onlyInTests, ours) && !slices.Contains(onlyInTests, dir):
			return "it is for tests only"
		case !slices.Contains(strings.Fields(l.may), ours):
			return fmt.Sprintf("package %s may import of ours only: %s (imports go one way, from the command line down to wire)", dir, orNothing(l.may))
		}
		return ""
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") { // standard library
		if why := impure[imported]; l.pure && why != "" {
			return fmt.Sprintf("package %s is pure: %s", dir, why)
		}
		return ""
	}
	home, where := homeOf(imported)
	switch {
	case home == "":
		return "this dependency has no home in the table of homes: give it one, or do without"
	case !slices.Contains(strings.Fields(where), dir):
		return fmt.Sprintf("the home of %s is: %s", home, orNothing(where))
	}
	return ""
}

func homeOf(imported string) (dependency, where string) {
	for d, w := range homes {
		if (imported == d || strings.HasPrefix(imported, d+"/")) && len(d) > len(dependency) {
			dependency, where = d, w
		}
	}
	return dependency, where
}

func orNothing(list string) string {
	if list == "" {
		return "nothing but tests"
	}
	return list
}

func TestPurePackagesHaveNoClockGoroutineChannelOrGlobalChance(t *testing.T) {
	for _, s := range sources(t) {
		if layers[s.dir].pure {
			for _, complaint := range impurities(s) {
				t.Error(complaint)
			}
		}
	}
}

// impurities finds what package imports do not show.
func impurities(s source) []string {
	var found []string
	say := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: package %s is pure: ", s.at(n), s.dir)+fmt.Sprintf(format, args...))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n, "a goroutine makes runs differ; the agent's loop is the only one that steps")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			say(n, "a channel waits for somebody; return an effect instead")
		case *ast.SelectorExpr:
			switch pkg, name := s.selector(n); {
			case pkg == "time" && slices.Contains(clockFuncs, name):
				say(n, "time.%s reads the real clock; take now as an argument, give a deadline back", name)
			case pkg == "math/rand/v2" && ast.IsExported(name) && !slices.Contains(randMakers, name) && !isRandType(name):
				say(n, "rand.%s draws from the global source, which no seed repeats; draw from election.Config.Rand", name)
			}
		}
		return true
	})
	return found
}

func isRandType(name string) bool {
	return slices.Contains([]string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}, name)
}

// selector resolves pkg.Name to the import path and the name; "" when it is not
// a package's.
func (s source) selector(n *ast.SelectorExpr) (pkg, name string) {
	x, ok := n.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		local := path.Base(p)
		if local == "v2" {
			local = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == x.Name {
			return p, n.Sel.Name
		}
	}
	return "", ""
}

func TestTheAgentReadsItsClocksInOneFile(t *testing.T) {
	seen := false
	for _, s := range sources(t) {
		if s.dir != "agent" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, name := s.selector(sel)
			if pkg != "time" || !slices.Contains([]string{"Now", "Since", "Until"}, name) {
				return true
			}
			if seen = seen || s.name == clockFile; s.name != clockFile {
				t.Errorf("%s: time.%s: the agent reads its clocks in %s only, so that lease time is never mixed with wall time",
					s.at(sel), name, clockFile)
			}
			return true
		})
	}
	if !seen {
		t.Errorf("%s does not read the clock: this test looks at the wrong file", clockFile)
	}
}

func TestMainIsNoPlaceForCode(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir != "." {
			continue
		}
		if s.name != "main.go" {
			t.Errorf("%s: code has a package of its own; main.go calls cli.Main", s.name)
		}
		if lines := s.fset.Position(s.file.End()).Line; lines > 40 {
			t.Errorf("%s has %d lines: it calls cli.Main and does nothing else, which takes at most 40", s.name, lines)
		}
	}
}

// The rules above find what they are for.
func TestTheRulesBite(t *testing.T) {
	const text = `package p
import ("time"; "math/rand/v2"; clock "time")
func f(c chan int, r *rand.Rand) {
	go f(nil, nil)
	_ = time.Now()
	_ = clock.Since(time.Time{})
	_ = rand.IntN(3)
	_ = rand.New(rand.NewPCG(1, 2)).IntN(3)
	select {}
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := impurities(source{name: "p.go", dir: "p", file: file, fset: fset})
	for i, want := range []string{"p.go:3:10: ", "p.go:4:2: ", "time.Now", "time.Since", "rand.IntN", "p.go:9:2: "} {
		if i >= len(found) || !strings.Contains(found[i], want) {
			t.Fatalf("impurity %d: expected one with %q in %q", i, want, found)
		}
	}
	if len(found) != 6 {
		t.Errorf("found %d impurities, expected 6: %q", len(found), found)
	}
	for dir, imported := range map[string]string{
		"wire": "sync", "election": "os", "internal/jobs": "context", "internal/sim": module + "/agent", "hooks": module + "/internal/control",
		"agent": module + "/internal/test/lantest", "internal/config": "github.com/urfave/cli/v2", "internal/cli": "example.com/new/dependency",
	} {
		if complain(dir, layers[dir], imported) == "" {
			t.Errorf("package %s may import %s, and should not", dir, imported)
		}
	}
	for dir, imported := range map[string]string{"wire": "net/netip", "election": "math/rand/v2", "internal/cli": module + "/agent"} {
		if complaint := complain(dir, layers[dir], imported); complaint != "" {
			t.Errorf("package %s may not import %s: %s", dir, imported, complaint)
		}
	}
}
