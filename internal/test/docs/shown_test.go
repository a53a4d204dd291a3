package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// plans are the hosts of each page that shows what commands print.
var plans = map[string]plan{
	"README.md":         {leader: "alpha"},
	"docs/api.md":       {leader: "alpha", http: true},
	"docs/checks.md":    {leader: "alpha", favoured: "gamma", preempt: "never"},
	"docs/commands.md":  {leader: "alpha"},
	"docs/fencing.md":   {leader: "alpha"},
	"docs/hooks.md":     {leader: "alpha"},
	"docs/jobs.md":      {leader: "alpha"},
	"docs/operating.md": {leader: "alpha", favoured: "gamma", preempt: "never"}, // so that gamma is the best other
	"docs/quorum.md":    {leader: "gamma", favoured: "gamma", expect: 3},
}

// What a page shows is what the commands print, on real agents, in the order in which the page has them: except for times,
// ids, addresses and the width of columns.
func TestShown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	t.Parallel()
	binary := build(t)
	for _, p := range pages(t) {
		if p.path == tutorial {
			continue // TestTutorial runs it, on hosts of its own
		}
		for _, other := range onLAN[p.path] {
			p = p.without(other.section)
		}
		var shown []step
		for _, b := range p.blocks() {
			if b.language == "console" && !strings.HasPrefix(b.text, lab) {
				shown = append(shown, steps(t, p.path, b, prompt)...)
			}
		}
		plan, planned := plans[p.path]
		if planned != (len(shown) > 0) {
			t.Errorf("%s shows %d commands, and plans has it: %v", p.path, len(shown), planned)
		}
		if !planned || len(shown) == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			plan.config, plan.programs = configuration(p), programs(p)
			for _, s := range shown {
				if tool, _, _ := strings.Cut(s.line, " "); tool == "curl" || tool == "python3" {
					if _, err := exec.LookPath(tool); err != nil {
						t.Skip("skipped: " + err.Error())
					}
				}
			}
			h := startHosts(t, binary, plan)
			for _, s := range shown {
				h.play(s)
			}
		})
	}
}

// configuration is what of a page's configurations these hosts can have: its jobs.
func configuration(p page) string {
	for _, b := range p.blocks() {
		if b.language == "toml" && strings.Contains(b.text, "[[job]]") {
			return strings.ReplaceAll(b.text, "/usr/local/bin/backup", "/bin/true")
		}
	}
	return ""
}

// programs are those of a page, by the names that their first lines give them.
func programs(p page) map[string]string {
	all := map[string]string{}
	for _, b := range p.blocks() {
		if first, _, _ := strings.Cut(b.text, "\n"); b.language == "python" {
			all[strings.TrimPrefix(first, "# ")] = b.text
		}
	}
	return all
}

// A step is a command and what it prints.
type step struct {
	host, line string
	prints     []string
}

var prompt = regexp.MustCompile(`^(alpha|beta|gamma|delta|epsilon)# (.*)$`)

func steps(t *testing.T, path string, b block, prompt *regexp.Regexp) []step {
	t.Helper()
	var all []step
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		if m := prompt.FindStringSubmatch(line); m != nil {
			all = append(all, step{host: m[1], line: m[2]})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s: a console begins with %q: expected a prompt, such as alpha#", path, line)
		}
		last := &all[len(all)-1]
		last.prints = append(last.prints, line)
	}
	return all
}

// acts are the commands that change something, and are therefore run once. Others are repeated until they print what is
// shown, since some of it takes its time.
var acts = regexp.MustCompile(`^bully-agent (handover|step-down|stand|maintenance|forget|reload|exec|jobs (run|pause|resume)) ?`)

// saysNo begins the answer to a command that has changed nothing: it may come too early on a busy machine.
const saysNo = "error: cannot "

func (h *hosts) play(s step) {
	h.t.Helper()
	if strings.HasPrefix(s.line, "systemctl ") {
		h.systemctl(s.host, s.line)
		return
	}
	var said string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		said, _ = h.run(s.host, s.line)
		if asShown(s.prints, strings.Split(strings.TrimSuffix(said, "\n"), "\n")) {
			return
		}
		if acts.MatchString(s.line) && !strings.HasPrefix(said, saysNo) {
			break
		}
	}
	h.t.Errorf("%s# %s\nprints\n%s\nand is shown to print\n%s", s.host, s.line, said, strings.Join(s.prints, "\n"))
}

const omitted = "…"

// asShown compares line by line. A line that is "…" stands for any number of others.
func asShown(shown, printed []string) bool {
	for len(shown) > 0 && shown[0] != omitted {
		if len(printed) == 0 {
			return len(shown) == 1 && shown[0] == ""
		}
		if alike(shown[0]) != alike(printed[0]) {
			return false
		}
		shown, printed = shown[1:], printed[1:]
	}
	if len(shown) == 0 {
		return len(printed) == 0 || len(printed) == 1 && printed[0] == ""
	}
	for i := range len(printed) + 1 {
		if asShown(shown[1:], printed[i:]) {
			return true
		}
	}
	return false
}

// varying is what differs from one run to the next, and what stands for it.
var varying = []struct {
	what *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`-\d+-[0-9a-f]{8}-\d{10}-`), "-RUN-"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+`), "ADDRESS"},
	{regexp.MustCompile(`((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d[T ][\d:.]+( ?[+-]\d\d:?\d\d|Z)`), "TIME"},
	{regexp.MustCompile(`\+\d+\.\d{3} s`), "+TIME"},
	{regexp.MustCompile(`\b(pid|process) \d+`), "PROCESS"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h))+\b`), "SPAN"},
	{regexp.MustCompile(`\b\d+ ms later`), "SPAN later"},
	{regexp.MustCompile(`(voter +)- +SPAN ago`), "${1}SPAN SPAN ago"},        // a round trip is not measured yet
	{regexp.MustCompile(`(roster as of|^forgot .*,) epoch \d+`), "$1 EPOCH"}, // one more for each election
	{regexp.MustCompile(`version [^,]+,`), "version VERSION,"},
	{regexp.MustCompile(`told-of-leader`), "heard-leader"},                 // whichever comes first
	{regexp.MustCompile(`^scheduling .*`), "scheduling AS ITS RIGHTS ARE"}, // of who runs it
	{regexp.MustCompile(` +`), " "},
}

func alike(line string) string {
	for _, v := range varying {
		line = v.what.ReplaceAllString(line, v.is)
	}
	return strings.TrimSpace(line)
}

const lab = "$ go run . lab\n"

// The timeline of the README is that of its command, except for the order of what happens on different hosts at a time.
func TestLabAsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	i := slices.IndexFunc(readme(t).blocks(), func(b block) bool { return strings.HasPrefix(b.text, lab) })
	if i < 0 {
		t.Fatal("README.md does not show what lab prints")
	}
	shown := timeline(strings.TrimPrefix(readme(t).blocks()[i].text, lab))
	if len(shown) < 10 {
		t.Fatalf("a timeline of %d lines is shown", len(shown))
	}
	binary := build(t)
	const tries = 3 // on a busy machine a leader may be late, and another takes over: a true timeline, but another one
	var printed []byte
	for range tries {
		var err error
		if printed, err = exec.Command(binary, "lab").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if slices.Equal(shown, timeline(string(printed))) {
			return
		}
	}
	t.Errorf("lab prints\n%s\nand is shown otherwise: without times, and sorted,\n%s", printed, strings.Join(shown, "\n"))
}

// timeline gives the lines up to the verdict, sorted.
func timeline(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = alike(line); line == "verdict" || line == omitted {
			break
		}
		if line != "" {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}
