package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mustLoad(t *testing.T, src Source, h host) *Config {
	t.Helper()
	c, err := load(src, h)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

// writeFile puts text where only this test reads it.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// Without a file, a variable or a flag everything has a value, and the values go together.
func TestDefaultsNeedNothing(t *testing.T) {
	c := mustLoad(t, Source{}, alpha())
	for _, s := range Settings() {
		if !s.derived && s.field.text(c) != s.Default && s.field.text(c) != `""` {
			t.Errorf("%s is %q, the table says %q", s.Key, s.field.text(c), s.Default)
		}
		if c.Origin(s.Key) != "default" {
			t.Errorf("%s comes from %s", s.Key, c.Origin(s.Key))
		}
	}
	if c.Node.Name != "alpha" || c.Node.StateDir != "/var/lib/bully-agent" || c.Control.Socket != "/run/bully-agent/agent.sock" {
		t.Errorf("derived values: %+v %+v", c.Node, c.Control)
	}
	if n := c.Network; n.Bind.String() != "0.0.0.0:7950" || n.Advertise.String() != "10.0.0.1:7950" || n.Interface != "eth0" {
		t.Errorf("derived addresses: %+v", n)
	}
	if len(c.Notes) != 0 {
		t.Errorf("notes %q", c.Notes)
	}
}

func TestFlagOverEnvironmentOverFileOverDefault(t *testing.T) {
	src := Source{
		Path:  writeFile(t, "[node]\npriority = 1\nname = \"file\"\n[log]\nlevel = \"debug\"\n"),
		Env:   environment("BULLY_PRIORITY", "2", "BULLY_NAME", "env", "BULLY_CLUSTER", ""),
		Flags: map[string][]string{"priority": {"9", "3"}},
	}
	c := mustLoad(t, src, alpha())
	for _, tt := range []struct{ key, got, want, origin string }{
		{"node.priority", setting(t, "node.priority").field.text(c), "3", "--priority"},
		{"node.name", c.Node.Name, "env", "BULLY_NAME"},
		{"log.level", c.Log.Level, "debug", src.Path + ":5:9"},
		{"log.format", c.Log.Format, "text", "default"},
		{"cluster", c.Cluster, "default", "default"}, // an empty variable is not set
	} {
		if tt.got != tt.want || c.Origin(tt.key) != tt.origin {
			t.Errorf("%s = %s from %s, want %s from %s", tt.key, tt.got, c.Origin(tt.key), tt.want, tt.origin)
		}
	}
}

// The exported way in, on whatever host this is.
func TestLoadOnThisHost(t *testing.T) {
	dir := t.TempDir()
	c, err := Load(Source{
		Env: environment("HOME", dir, "BULLY_NAME", "here"),
		Flags: map[string][]string{
			"bind": {"127.0.0.1:7950"}, "state-dir": {filepath.Join(dir, "state")}, "socket": {filepath.Join(dir, "a.sock")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckHost(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Node.StateDir); err == nil {
		t.Error("Load or CheckHost made the state directory")
	}
	if socket := DefaultSocket(environment("HOME", dir), ""); !filepath.IsAbs(socket) {
		t.Errorf("default socket %q", socket)
	}
}

// What a higher source overrides is still checked: `config check` must not depend on the environment it runs in.
func TestOverriddenMistakeIsReported(t *testing.T) {
	_, err := load(Source{
		Path:  writeFile(t, "[node]\npriority = 70000\n"),
		Flags: map[string][]string{"priority": {"5"}, "settle": {"30"}},
	}, alpha())
	var first *Error
	if !errors.As(err, &first) || first.Key != "node.priority" || first.ExitCode() != 7 {
		t.Errorf("got %v, want the file's mistake first and exit code 7", err)
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 2 {
		t.Errorf("%d lines, want 2: %v", n, err)
	}
}

func setting(t *testing.T, key string) Setting {
	t.Helper()
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		t.Fatalf("no setting %s", key)
	}
	return settings[i]
}

func TestKebabAndInlineAndDottedKeysAreTheSame(t *testing.T) {
	for _, text := range []string{
		"[election]\npreempt_delay = \"7s\"",
		"[election]\npreempt-delay = \"7s\"",
		"election.preempt-delay = '7s'",
		"election = { preempt_delay = \"7s\" }",
		"\xef\xbb\xbf[election]\r\npreempt-delay = \"7s\"\r\n",
	} {
		c := mustLoad(t, Source{Path: writeFile(t, text)}, alpha())
		if c.Election.PreemptDelay != 7*time.Second {
			t.Errorf("%q: preempt_delay %s", text, c.Election.PreemptDelay)
		}
	}
}

func TestJoinListIsCompletedAndKeptInOrder(t *testing.T) {
	want := []string{"beta.lan:7960", "10.0.0.7:7950", "[fd00::2]:7960", "10.0.0.1:7960"}
	for name, src := range map[string]Source{
		"file":  {Path: writeFile(t, `network.join = ["beta.lan", "10.0.0.7:7950", "fd00::2", "[fd00::2]", "10.0.0.1"]`)},
		"flags": {Flags: map[string][]string{"join": {"beta.lan,10.0.0.7:7950", "fd00::2", " beta.lan ,10.0.0.1"}}},
		"env":   {Env: environment("BULLY_JOIN", "beta.lan,10.0.0.7:7950,[fd00::2]:7960,,::ffff:10.0.0.1")},
	} {
		if src.Flags == nil {
			src.Flags = map[string][]string{}
		}
		src.Flags["bind"] = []string{":7960"}
		if got := mustLoad(t, src, alpha()).Network.Join; !slices.Equal(got, want) {
			t.Errorf("%s: join %q, want %q", name, got, want)
		}
	}
	empty := Source{Flags: map[string][]string{"join": {""}}}
	if got := mustLoad(t, empty, alpha()).Network.Join; len(got) != 0 {
		t.Errorf("join with nothing in it: %q", got)
	}
}

func TestAddressesAsWritten(t *testing.T) {
	for _, tt := range []struct{ bind, advertise, wantBind, wantAdvertise string }{
		{":7951", "", "0.0.0.0:7951", "10.0.0.1:7951"},
		{"10.0.0.1", "", "10.0.0.1:7950", "10.0.0.1:7950"},
		{"[::]:7950", "10.0.0.1", "[::]:7950", "10.0.0.1:7950"},
		{`{{ GetInterfaceIP "eth0" }}:7951`, "", "10.0.0.1:7951", "10.0.0.1:7951"},
		{"0.0.0.0:7950", "203.0.113.9:17950", "0.0.0.0:7950", "203.0.113.9:17950"},
		{"[::ffff:10.0.0.1]:7950", "", "10.0.0.1:7950", "10.0.0.1:7950"},
		{"fd00::1", "", "[fd00::1]:7950", "[fd00::1]:7950"},
	} {
		n := mustLoad(t, Source{Flags: map[string][]string{"bind": {tt.bind}, "advertise": {tt.advertise}}}, alpha()).Network
		if n.Bind.String() != tt.wantBind || n.Advertise.String() != tt.wantAdvertise {
			t.Errorf("bind %q advertise %q: got %s, %s", tt.bind, tt.advertise, n.Bind, n.Advertise)
		}
	}
}

func TestProfilesSetTheTimersThatAreNotSetByHand(t *testing.T) {
	ms := time.Millisecond
	for _, tt := range []struct {
		text                    string
		heartbeat, lease, stops time.Duration
	}{
		{`network.profile = "lan"`, 50 * ms, 400 * ms, 100 * ms},
		{`network.profile = "fast"`, 20 * ms, 160 * ms, 40 * ms},
		{`network.profile = "wan"`, 1000 * ms, 8000 * ms, 2000 * ms},
		{`election.lease = "200ms"`, 50 * ms, 200 * ms, 50 * ms},
		{"network.profile = \"fast\"\nelection.stop_budget = \"30ms\"", 20 * ms, 160 * ms, 30 * ms},
	} {
		e := mustLoad(t, Source{Path: writeFile(t, tt.text)}, alpha()).Election
		if e.Heartbeat != tt.heartbeat || e.Lease != tt.lease || e.StopBudget != tt.stops {
			t.Errorf("%q: %s/%s/%s", tt.text, e.Heartbeat, e.Lease, e.StopBudget)
		}
	}
}

func TestHookIsALineOrAVector(t *testing.T) {
	c := mustLoad(t, Source{
		Path: writeFile(t, "[hooks]\non_become_leader = '''\nset -e\nip addr add 10.0.0.9/24 dev eth0'''\n"+
			"on_lose_leadership = [\"/bin/release\", \"a b\"]\non_member_change = []\n"),
		Flags: map[string][]string{"on-leader-change": {`logger "$BULLY_LEADER"`}},
	}, alpha())
	h := c.Hooks
	if h.OnBecomeLeader.Shell != "set -e\nip addr add 10.0.0.9/24 dev eth0" || h.OnBecomeLeader.Argv != nil {
		t.Errorf("multi-line string: %+v", h.OnBecomeLeader)
	}
	if !slices.Equal(h.OnLoseLeadership.Argv, []string{"/bin/release", "a b"}) || h.OnLoseLeadership.Shell != "" {
		t.Errorf("array: %+v", h.OnLoseLeadership)
	}
	if h.OnLeaderChange.Shell != `logger "$BULLY_LEADER"` {
		t.Errorf("flag: %+v", h.OnLeaderChange)
	}
	if !h.OnMemberChange.IsZero() || h.OnLoseLeadership.IsZero() {
		t.Error("only the empty array is no command")
	}
	if got := h.OnLoseLeadership.String(); got != `["/bin/release", "a b"]` {
		t.Errorf("String: %s", got)
	}
}

func TestNameComesFromTheHost(t *testing.T) {
	for host, want := range map[string]string{
		"alpha":                 "alpha",
		"alpha.home.lan":        "alpha.home.lan",
		"my host!":              "my-host",
		"-_.alpha":              "alpha",
		"größe":                 "gr-e",
		strings.Repeat("a", 80): strings.Repeat("a", 63),
		"日本":                    "",
		"":                      "",
	} {
		h := alpha()
		h.hostname = func() (string, error) { return host, nil }
		c, err := load(Source{}, h)
		switch {
		case want == "" && err == nil:
			t.Errorf("host %q: accepted as %q", host, c.Node.Name)
		case want != "" && err != nil:
			t.Errorf("host %q: %v", host, err)
		case want != "" && c.Node.Name != want:
			t.Errorf("host %q: name %q, want %q", host, c.Node.Name, want)
		}
	}
}

func TestDirectoriesOfAnOrdinaryUser(t *testing.T) {
	for name, tt := range map[string]struct {
		env           []string
		state, socket string
		err           string
	}{
		"XDG": {
			env:   []string{"HOME", "/home/u", "XDG_STATE_HOME", "/s", "XDG_RUNTIME_DIR", "/run/user/1"},
			state: "/s/bully-agent", socket: "/run/user/1/bully-agent/agent.sock",
		},
		"home only": {
			env:   []string{"HOME", "/home/u", "XDG_STATE_HOME", "relative"},
			state: "/home/u/.local/state/bully-agent", socket: "/home/u/.local/state/bully-agent/agent.sock",
		},
		"nothing": {
			err: "node.state_dir: there is no home directory to keep state in: expected HOME or XDG_STATE_HOME to be the absolute path of one that this user may search; hint: set --state-dir",
		},
		"home too long for a socket": {
			env: []string{"HOME", "/" + strings.Repeat("h", 99)},
			err: `control.socket: "/` + strings.Repeat("h", 99) + `"… is 136 bytes long: expected at most 107, the kernel's bound for a socket; hint: set --socket`,
		},
		"relative on the command line": {
			env: []string{"BULLY_STATE_DIR", "state", "BULLY_SOCKET", "../a.sock"}, state: "/home/u/state", socket: "/home/a.sock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := alpha()
			h.root = false
			c, err := load(Source{Env: environment(tt.env...)}, h)
			if err != nil {
				if err.Error() != tt.err {
					t.Errorf("got  %s\nwant %s", err, tt.err)
				}
				return
			}
			if c.Node.StateDir != tt.state || c.Control.Socket != tt.socket {
				t.Errorf("state %s, socket %s", c.Node.StateDir, c.Control.Socket)
			}
		})
	}
}

// Who is another user than HOME is of has no home: what is named is HOME, and not a directory on the way.
func TestAnothersHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another")
	}
	shut := t.TempDir()
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	homes := make(chan string)
	go func() {
		runtime.LockOSThread() // for ever: the thread is another user's, and ends with the goroutine
		h := alpha()
		h.root = false
		l := newLoader(Source{Env: environment("HOME", shut)}, h)
		homes <- l.home()
		_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, 7950, 7950, 7950)
		homes <- l.home()
	}()
	if own, anothers := <-homes, <-homes; own != shut || anothers != "" {
		t.Errorf("home %q, and as another %q", own, anothers)
	}
}

// Whatever stands at the path, Load ends at once with one line.
func TestWhatIsNoConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, data []byte, mode os.FileMode) string {
		if err := errors.Join(os.WriteFile(at(name), data, 0o600), os.Chmod(at(name), mode)); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	if err := errors.Join(syscall.Mkfifo(at("fifo"), 0o600), os.Symlink(at("loop"), at("loop"))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		at("missing"): "cannot be read: no such file or directory; hint: all defaults work with no file at all",
		dir:           "it is a directory: expected a TOML file",
		at("fifo"):    "it is a FIFO: expected a TOML file",
		at("loop"):    "cannot be read: too many levels of symbolic links",
		"/dev/zero":   "it is a device: expected a TOML file",
		write("big", make([]byte, 10<<20), 0o600):  "it is 10485760 bytes long: expected at most 1048576",
		write("open", []byte("x = 1"), 0o666):      "everyone may write it (mode 0666), and its hooks run as root; hint: chmod o-w",
		write("binary", []byte{0, 1, 2, 3}, 0o600): "it is not text (a NUL at byte 0): expected TOML",
	} {
		_, err := load(Source{Path: path}, alpha())
		if got := path + ": " + want; err == nil || err.Error() != got {
			t.Errorf("got  %v\nwant %s", err, got)
		}
	}
	if os.Geteuid() != 0 { // root reads everything
		secret := write("secret", []byte("x = 1"), 0)
		if _, err := load(Source{Path: secret}, alpha()); err == nil || !strings.Contains(err.Error(), "permission denied; hint: ") {
			t.Errorf("unreadable: %v", err)
		}
	}
	mustLoad(t, Source{Path: write("empty", nil, 0o600)}, alpha())
}

// A file that is not ours gives a page, not a line for each of its lines.
func TestReportIsBounded(t *testing.T) {
	_, err := load(Source{Path: writeFile(t, strings.Repeat("[a]\n", 1)+"x = 1\n"+manyKeys(5000))}, alpha())
	if n := len(strings.Split(err.Error(), "\n")); n > maxProblems {
		t.Errorf("%d lines", n)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("[t" + strings.Repeat("x", i%50) + "." + "k" + time.Duration(i).String() + "]\na = 1\n")
	}
	return b.String()
}

func TestReloadSeesWhatChanged(t *testing.T) {
	before := mustLoad(t, Source{}, alpha())
	after := mustLoad(t, Source{Flags: map[string][]string{
		"priority": {"5"}, "join": {"beta"}, "bind": {":7951"}, "on-become-leader": {"true"},
	}}, alpha())
	got := map[string]bool{}
	for _, s := range before.Changed(after) {
		got[s.Key] = s.Reloadable
	}
	want := map[string]bool{
		"node.priority": true, "network.join": true, "hooks.on_become_leader": true,
		"network.bind": false, "network.advertise": false,
	}
	if len(got) != len(want) {
		t.Errorf("changed %v, want %v", got, want)
	}
	for key, reloadable := range want {
		if r, changed := got[key]; !changed || r != reloadable {
			t.Errorf("%s: changed %t, reloadable %t", key, changed, r)
		}
	}
	if n := len(before.Changed(before)); n != 0 {
		t.Errorf("%d settings differ from themselves", n)
	}
}

// The common flags of docs/configuration.md; each has its variable, and its key bears its name.
func TestTableOfSettings(t *testing.T) {
	want := strings.Fields(`name cluster bind advertise device join priority state-dir scheduling user expect preempt preempt-delay takeover-delay
		algorithm profile settle on-become-leader on-lose-leadership on-leader-change on-member-change hook-timeout hook-grace
		socket log-level log-format key insecure http-listen http-cert-file http-key-file`)
	var flags []string
	for _, s := range Settings() {
		if s.Flag != "" {
			flags = append(flags, s.Flag)
			if env := "BULLY_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_")); s.Env != env {
				t.Errorf("--%s has variable %s, want %s", s.Flag, s.Env, env)
			}
		}
		if !regexp.MustCompile(`^[^\n]{10,110}[^.\n]$`).MatchString(s.Usage) {
			t.Errorf("%s: usage %q", s.Key, s.Usage)
		}
	}
	slices.Sort(flags)
	slices.Sort(want)
	if !slices.Equal(flags, want) {
		t.Errorf("flags %q\nwant  %q", flags, want)
	}
}

// The reference file sets every default and documents every key, also those it only shows.
func TestReferenceFileIsTheDefaults(t *testing.T) {
	defaults := mustLoad(t, Source{}, alpha())
	active := mustLoad(t, Source{Path: writeFile(t, ReferenceTOML())}, alpha())
	if changed := defaults.Changed(active); len(changed) != 0 {
		t.Errorf("the reference file changes %+v", changed)
	}
	shown := regexp.MustCompile(`(?m)^# ([a-z_]+ = |\[\[)`).ReplaceAllStringFunc(ReferenceTOML(), func(s string) string {
		if strings.Contains(s, "bind") || strings.Contains(s, "on_become_leader") {
			return s // examples of another value
		}
		return strings.TrimPrefix(s, "# ")
	})
	shown = strings.ReplaceAll(shown, "192.168.1.10", "10.0.0.1")
	all := mustLoad(t, Source{Path: writeFile(t, shown)}, alpha())
	changed := slices.DeleteFunc(defaults.Changed(all), func(s Setting) bool { return s.Key == hostsKey }) // no line of a file is none
	if len(changed) != 0 {
		t.Errorf("with its examples the reference file changes %+v", changed)
	}
	for _, s := range Settings() {
		if all.Origin(s.Key) == "default" {
			t.Errorf("%s is not in the reference file", s.Key)
		}
	}
	if len(all.Jobs) != 1 {
		t.Fatalf("the reference file shows %d jobs", len(all.Jobs))
	}
	for _, k := range jobKeys {
		if _, shown := all.Jobs[0].places[k.name]; !shown {
			t.Errorf("job.%s is not in the reference file", k.name)
		}
	}
	if len(all.Checks) != 1 {
		t.Fatalf("the reference file shows %d checks", len(all.Checks))
	}
	for _, k := range checkKeys {
		if _, shown := all.Checks[0].places[k.name]; !shown {
			t.Errorf("check.%s is not in the reference file", k.name)
		}
	}
	settings, _, _ := strings.Cut(ReferenceTOML(), "# Checks: commands")
	table := ""
	for i, section := range strings.Split(settings, "\n\n") {
		if header := regexp.MustCompile(`(?m)^\[([a-z]+)\]$`).FindStringSubmatch(section); header != nil {
			table = header[1]
		}
		for _, s := range Settings() {
			in, name, _ := cutLast(s.Key)
			isHere := in == table && regexp.MustCompile(`(?m)^(# )?`+name+` = `).MatchString(section)
			if isHere && s.Reloadable != strings.Contains(section, "[reload]") {
				t.Errorf("paragraph %d, %s: reloadable is %t", i, s.Key, s.Reloadable)
			}
		}
	}
}
