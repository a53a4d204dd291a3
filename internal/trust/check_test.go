package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// What may be run, and what is said when not. Names are relative to a
// directory that only root can change.
func TestCheckFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	for _, tt := range []struct {
		name    string
		arrange func(d *tree)
		path    string
		root    string // what is said to root; empty: may be run
		other   string // … to anybody else
	}{
		{"plain", func(d *tree) { d.file("hook", 0o755) }, "hook", "", ""},
		{"private", func(d *tree) { d.file("hook", 0o700) }, "hook", "", ""},
		{"missing", func(*tree) {}, "hook", "no such file", "no such file"},
		{"missing directory", func(*tree) {}, "dir/hook", "no such file", "no such file"},
		{"not executable", func(d *tree) { d.file("hook", 0o644) }, "hook", "not executable (mode 0644)", "not executable"},
		{"directory", func(d *tree) { d.dir("hook", 0o755) }, "hook", "is a directory", "is a directory"},
		{"pipe", func(d *tree) { d.fifo("hook") }, "hook", "not a regular file", "not a regular file"},
		{"file as directory", func(d *tree) { d.file("hook", 0o755) }, "hook/x", "not a directory", "not a directory"},

		{"file writable by all", func(d *tree) { d.file("hook", 0o757) }, "hook", "hook: writable by everyone (mode -rwxr-xrwx)", ""},
		{"file writable by group", func(d *tree) { d.file("hook", 0o775); d.own("hook", 0, 50) }, "hook", "hook: writable by group 50", ""},
		{"file writable by root's group", func(d *tree) { d.file("hook", 0o775) }, "hook", "", ""},
		{"file of another", func(d *tree) { d.file("hook", 0o755); d.own("hook", 1000, 0) }, "hook", "hook: owned by uid 1000", ""},

		{"parent writable by all", func(d *tree) { d.dir("dir", 0o777); d.file("dir/hook", 0o755) }, "dir/hook", "dir: writable by everyone (mode drwxrwxrwx)", ""},
		{"parent of another", func(d *tree) { d.dir("dir", 0o755); d.file("dir/hook", 0o755); d.own("dir", 1000, 0) }, "dir/hook", "dir: owned by uid 1000", ""},
		{"grandparent writable", func(d *tree) { d.dir("dir", 0o777); d.dir("dir/in", 0o755); d.file("dir/in/hook", 0o755) }, "dir/in/hook", "dir: writable by everyone", ""},
		{"sticky parent", func(d *tree) { d.dir("dir", 0o777|os.ModeSticky); d.file("dir/hook", 0o755) }, "dir/hook", "", ""},
		{"sticky parent, file of another", func(d *tree) {
			d.dir("dir", 0o777|os.ModeSticky)
			d.file("dir/hook", 0o755)
			d.own("dir/hook", 1000, 0)
		}, "dir/hook", "hook: owned by uid 1000", ""},

		{"link", func(d *tree) { d.file("file", 0o755); d.link("file", "hook") }, "hook", "", ""},
		{"link to writable file", func(d *tree) { d.file("file", 0o757); d.link("file", "hook") }, "hook", "file: writable by everyone", ""},
		{"link into writable directory", func(d *tree) { d.dir("dir", 0o777); d.file("dir/hook", 0o755); d.link("dir/hook", "hook") }, "hook", "dir: writable by everyone", ""},
		{"absolute link", func(d *tree) { d.dir("dir", 0o777); d.file("dir/hook", 0o755); d.link(d.at("dir/hook"), "hook") }, "hook", "dir: writable by everyone", ""},
		{"linked directory, then up", func(d *tree) {
			d.dir("open", 0o777)
			d.dir("open/in", 0o755)
			d.file("open/hook", 0o755)
			d.link("open/in", "dir")
		}, "dir/../hook", "open: writable by everyone", ""},
		{"link of another", func(d *tree) { d.file("file", 0o755); d.link("file", "hook"); d.own("hook", 1000, 0) }, "hook", "hook: owned by uid 1000", ""},
		{"link to nothing", func(d *tree) { d.link("nowhere", "hook") }, "hook", "nowhere does not exist", "no such file"},
		{"links in a circle", func(d *tree) { d.link("hook", "other"); d.link("other", "hook") }, "hook", "a loop?", "too many levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newTree(t)
			tt.arrange(d)
			path := d.root + "/" + tt.path // not joined: ".." must survive
			for root, want := range map[bool]string{true: tt.root, false: tt.other} {
				err := check(hooks.Command{Argv: []string{path, "--flag"}}, root)
				switch {
				case want == "" && err != nil:
					t.Errorf("root %v: refused: %v", root, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("root %v: err = %v, want %q in it", root, err, want)
				case err != nil && strings.Contains(err.Error(), "\n"):
					t.Errorf("root %v: more than one line: %v", root, err)
				}
			}
		})
	}
}

// tree is a directory in which a test arranges what it needs. The test's own
// temporary directory is below a sticky /tmp, so its parents are fit.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) *tree {
	d := &tree{t: t, root: t.TempDir()}
	if err := CheckPath(d.root); err != nil {
		t.Skipf("the temporary directory itself is not safe: %v", err)
	}
	return d
}

func (d *tree) at(name string) string { return filepath.Join(d.root, name) }

func (d *tree) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *tree) file(name string, mode os.FileMode) {
	d.must(os.WriteFile(d.at(name), []byte("#!/bin/sh\n"), 0o600))
	d.must(os.Chmod(d.at(name), mode))
}

func (d *tree) dir(name string, mode os.FileMode) {
	d.must(os.Mkdir(d.at(name), 0o700))
	d.must(os.Chmod(d.at(name), mode))
}

func (d *tree) fifo(name string)         { d.must(unix.Mkfifo(d.at(name), 0o755)) }
func (d *tree) link(target, name string) { d.must(os.Symlink(target, d.at(name))) }
func (d *tree) own(name string, uid, gid int) {
	d.must(os.Lchown(d.at(name), uid, gid))
}

func TestCheckCommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		cmd  hooks.Command
		want string
	}{
		{"none", hooks.Command{}, ""},
		{"array", hooks.Command{Argv: []string{"/bin/sh", "-c", "true"}}, ""},
		{"relative array", hooks.Command{Argv: []string{"release", "--fast"}}, "/usr/local/bin/release"},
		{"shell words", hooks.Command{Shell: "logger leader is $BULLY_LEADER"}, ""},
		{"shell path", hooks.Command{Shell: "/no/such/hook --now"}, "no such file"},
		{"both", hooks.Command{Shell: "x", Argv: []string{"/x"}}, "keep one of them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := check(tt.cmd, false)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestFirstWord(t *testing.T) {
	for line, want := range map[string]string{
		"/opt/hook":               "/opt/hook",
		"  /opt/hook --flag":      "/opt/hook",
		"/opt/hook; true":         "/opt/hook",
		"/opt/hook>/dev/null":     "/opt/hook",
		"'/opt/my hook' --flag":   "/opt/my hook",
		`"/opt/my hook"`:          "/opt/my hook",
		`"/opt/$X/hook"`:          "",
		"'/opt/hook'x":            "",
		"'/opt/hook":              "",
		"/opt/*/hook":             "",
		"$HOME/hook":              "",
		"logger hello":            "logger",
		"":                        "",
		"X=1 /opt/hook":           "X=1",
		"exec /opt/hook":          "exec",
		"/opt/hook\n/opt/another": "/opt/hook",
	} {
		if got := firstWord(line); got != want {
			t.Errorf("firstWord(%q) = %q, want %q", line, got, want)
		}
	}
}
