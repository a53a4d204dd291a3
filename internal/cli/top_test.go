package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/test/glass"
)

// asProgram has the test's binary be the program.
const asProgram = "BULLY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// puppet is an agent's socket that answers as a test says.
type puppet struct {
	socket  string
	status  control.Status
	members []control.Member
	events  []control.Event
	more    map[string]any // what it answers elsewhere, by path; nil: no content
}

func newPuppet(t *testing.T) *puppet {
	heard, long := int64(12), int64(1260)
	at := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	nodes := []control.Member{
		{Name: "alpha", Status: "alive", Role: "voter", Priority: 100, Self: true, Addr: "192.168.1.11:7950", ID: "236769eb-55ed-466a-b982-566e2ed806af"},
		{Name: "beta", Status: "suspect", Role: "witness", Priority: 100, RTTMS: 0.33, HeardMS: &long, Addr: "192.168.1.12:7950", ID: "e08456e1-1111-466a-b982-566e2ed806af"},
		{Name: "gamma", Status: "alive", Role: "voter", Priority: 200, Leader: true, RTTMS: 0.35, HeardMS: &heard, Addr: "192.168.1.13:7950", ID: "cc9c68df-e223-4c87-b963-71787ce2dc6d"},
		{Name: "a-host-with-quite-a-name", Status: "dead", Role: "voter", Priority: 65535, Addr: "[fd00::1234:5678:9abc:def0]:7950", ID: "0f9c68df-e223-4c87-b963-71787ce2dc6d"},
	}
	p := &puppet{socket: filepath.Join(t.TempDir(), "a.sock"), members: nodes, status: control.Status{Version: "v1.2.3", Cluster: "home-lab",
		Self: nodes[0], Role: "follower", Mode: "available", Leader: &control.Node{Name: "gamma", Addr: "192.168.1.13:7950"}, Members: 4, Alive: 2,
		Silent: []string{"beta"}, Epoch: control.Epoch{Counter: 7}, Uptime: 100, Notes: []string{"one thing", "another"}}}
	for i := range 40 {
		p.events = append(p.events, control.Event{Seq: uint64(i + 1), Time: at.Add(time.Duration(i) * time.Second), Type: "member", Text: "something of beta\x1b[2J"})
	}
	last := &p.events[len(p.events)-1]
	*last = control.Event{Seq: last.Seq, Time: last.Time, Type: "transition", Text: "began to step down", Role: "leader", Leader: "gamma",
		Epoch: &control.Epoch{Counter: 7}, Cause: "leader-resigned"} // among the longest
	return p
}

// serve answers until stop is called.
func (p *puppet) serve(t *testing.T) (stop func()) {
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		p.status.Since = time.Now().Add(-72 * time.Hour)
		switch encode := json.NewEncoder(w); r.URL.Path {
		case "/v1/status":
			_ = encode.Encode(p.status)
		case "/v1/members":
			_ = encode.Encode(p.members)
		case "/v1/events":
			for _, e := range p.events {
				_ = encode.Encode(e)
			}
		default:
			if more, known := p.more[r.URL.Path]; !known {
				w.WriteHeader(http.StatusNotFound)
			} else if more == nil {
				w.WriteHeader(http.StatusNoContent)
			} else {
				_ = encode.Encode(more)
			}
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(answer)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return func() { _ = server.Close() }
}

func (p *puppet) top(t *testing.T, width, height int, environ ...string) *glass.Session {
	cmd := exec.Command(os.Args[0], "top", "--socket", p.socket)
	cmd.Env = append(os.Environ(), append([]string{asProgram + "=1", "TZ=UTC", "TERM=xterm", "NO_COLOR="}, environ...)...)
	return glass.Run(t, cmd, width, height)
}

var spanOnScreen = regexp.MustCompile(` for [0-9hms.]+`)

// goldenScreen is golden for what shows how long something has been so.
func goldenScreen(t *testing.T, name, got string) {
	t.Helper()
	golden(t, name, spanOnScreen.ReplaceAllString(got, " for TIME"))
}

// In 80 columns and in 200, and resized meanwhile: all of the picture is there, and nothing of the one before.
func TestTopFitsItsTerminal(t *testing.T) {
	p := newPuppet(t)
	p.serve(t)
	s := p.top(t, 80, 24)
	isWhole := func(screen string) bool {
		return strings.Contains(screen, "gamma, 192.168") && strings.Contains(screen, "q quit")
	}
	goldenScreen(t, "top-80x24.txt", s.Until("the whole", isWhole))
	s.Resize(200, 50)
	goldenScreen(t, "top-200x50.txt", s.Until("the whole", func(screen string) bool {
		return isWhole(screen) && strings.Count(screen, "something of beta") == 37
	}))
	s.Resize(80, 24)
	goldenScreen(t, "top-80x24.txt", s.Until("the smaller", func(screen string) bool {
		return isWhole(screen) && strings.Count(screen, "something of beta") == 10
	}))
	s.Resize(12, 4)
	s.UntilShows("alpha: follo")
	s.Type("q")
	if err := s.End(); err != nil {
		t.Error(err)
	}
	if !s.IsColoured() {
		t.Error("there is no colour")
	}
}

func TestTopObeysNoColor(t *testing.T) {
	p := newPuppet(t)
	p.serve(t)
	s := p.top(t, 80, 24, "NO_COLOR=1")
	s.UntilShows("gamma, 192.168")
	s.Type("\x1b[B")
	s.UntilShows("> beta")
	s.Type("kkjj") // not beyond the first
	s.UntilShows("> gamma")
	s.Type("\x03")
	if err := s.End(); err != nil || s.IsColoured() {
		t.Errorf("error %v, coloured %t", err, s.IsColoured())
	}
}

// An agent that is not there, goes and comes back: it says so, keeps what it knew, and shows the new one.
func TestTopOutlivesTheAgent(t *testing.T) {
	p := newPuppet(t)
	s := p.top(t, 120, 24)
	s.UntilShows("NO AGENT ANSWERS at " + p.socket)
	stop := p.serve(t)
	s.UntilShows("alpha: follower")
	stop()
	screen := s.UntilShows("NO AGENT ANSWERS")
	if !strings.Contains(screen, "what it said last") || !strings.Contains(screen, "gamma") {
		t.Errorf("what was known is gone:\n%s", screen)
	}
	p.status.Uptime, p.events = 1, []control.Event{{Seq: 1, Type: "start", Text: "a new life"}}
	p.serve(t)
	if screen = s.UntilShows("a new life"); strings.Contains(screen, "something of beta") || strings.Contains(screen, "NO AGENT") {
		t.Errorf("the former life is shown still:\n%s", screen)
	}
	s.Type("q")
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// Whatever signal ends it, the terminal is as it was.
func TestTopRestoresTheTerminal(t *testing.T) {
	p := newPuppet(t)
	p.serve(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		s := p.top(t, 80, 24)
		s.UntilShows("gamma, 192.168")
		s.Signal(sig)
		if err := s.End(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// What is no terminal gets it once: a pipe, and a terminal that can do nothing.
func TestTopPrintsOnce(t *testing.T) {
	p := newPuppet(t)
	p.serve(t)
	t.Setenv("TZ", "UTC")
	code, out, errs := commandLine("top", "--socket", p.socket)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	goldenScreen(t, "top-pipe.txt", out)
	var all struct {
		Status  control.Status
		Members []control.Member
		Events  []control.Event
	}
	if code, out, _ = commandLine("top", "--json", "--socket", p.socket); code != 0 || json.Unmarshal([]byte(out), &all) != nil ||
		all.Status.Self.Name != "alpha" || len(all.Members) != 4 || len(all.Events) != 40 {
		t.Errorf("exit %d, %s", code, out)
	}
	s := p.top(t, 80, 24, "TERM=dumb")
	s.UntilShows("gamma, 192.168")
	if err := s.End(); err != nil {
		t.Error(err)
	}
	code, out, errs = commandLine("top", "--socket", filepath.Join(t.TempDir(), "none"))
	if code != exitUnreachable || out != "" || strings.Count(errs, "\n") != 1 {
		t.Errorf("without an agent: exit %d, %q, %q", code, out, errs)
	}
}

// What the members are known by, and the notes of this host do not say, is a note of its own, with where more is said.
func TestTopNotesOtherHosts(t *testing.T) {
	reason := "disk\x1b[2J"
	s := scene{Status: control.Status{Notes: []string{"beta does not answer the election"}}, Members: []control.Member{
		{Name: "alpha", Status: "alive", Voter: true, Self: true, Draining: true},
		{Name: "beta", Status: "alive", Voter: true, Mute: true, Notes: []string{"settings differ"}},
		{Name: "gamma", Status: "alive", Voter: true, Draining: true, LacksKeys: []string{"ab12"}},
		{Name: "delta", Status: "alive", Maintenance: &reason, Draining: true},
		{Name: "omega", Status: "dead", Voter: true, Draining: true},
	}}
	want := []string{"note: beta does not answer the election", "note: gamma: cannot lead now, lacks key ab12; status there says more",
		`note: delta: maintenance: disk\x1b[2J; status there says more`}
	if got := s.notes(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A leader's screen names its resources, and those that are not here.
func TestTopNamesResources(t *testing.T) {
	status := control.Status{Role: "leader", Resources: []control.Resource{{Name: "vip", Here: true}, {Name: "web"}}}
	if got := possessions(status); got != "resources: vip, web (not here)" {
		t.Errorf("a leader: %q", got)
	}
	if status.Role = "follower"; possessions(status) != "" {
		t.Errorf("a follower: %q", possessions(status))
	}
}
