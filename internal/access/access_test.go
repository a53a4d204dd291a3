package access

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who is trusted may own a file and what leads to it, and nobody else may read it.
func TestPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	const none = ^uint32(0)
	group, mask, other := aclEntry{aclOwnerGroup, 0, none}, aclEntry{aclMask, 4, none}, aclEntry{aclEveryone, 0, none}
	for _, tt := range []struct {
		name    string
		mode    os.FileMode
		arrange func(d *tree)
		want    string
	}{
		{"its owner's alone", 0o600, nil, ""},
		{"of the trusted user", 0o400, func(d *tree) { d.own("file", 7950, 7950) }, ""},
		{"of another", 0o600, func(d *tree) { d.own("file", 1000, 0) }, "file: owned by uid 1000 (mode -rw-------): chown 7950 it"},
		{"readable by all", 0o644, nil, "file: readable by everyone (mode -rw-r--r--): chmod o-r it"},
		{"readable by a group", 0o640, nil, "file: readable by group 0 (mode -rw-r-----): chmod g-r it"},
		{"writable by all", 0o602, nil, "file: writable by everyone (mode -rw-----w-): chmod o-w it"},
		{"a list for the trusted user, as systemd makes for a credential", 0o400,
			func(d *tree) { d.acl("file", aclEntry{aclUser, 4, 7950}, group, mask, other) }, ""},
		{"a list for another", 0o400, func(d *tree) { d.acl("file", aclEntry{aclUser, 4, 1000}, group, mask, other) },
			"file: readable by another through the access control list (user:1000:r--): setfacl -b it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newTree(t)
			d.file("file", tt.mode)
			if tt.arrange != nil {
				tt.arrange(d)
			}
			info, err := os.Lstat(d.at("file"))
			d.must(err)
			err = Trusted{7950}.Private(d.at("file"), info)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWalkTrustsWhomItIsTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	d := newTree(t)
	d.dir("dir", 0o700)
	d.file("dir/file", 0o600)
	d.own("dir", 7950, 0)
	if err := (Trusted{7950}).Walk(d.at("dir/file")); err != nil {
		t.Errorf("a directory of the trusted user: %v", err)
	}
	var open *Error
	if err := OfRoot.Walk(d.at("dir/file")); !errors.As(err, &open) || open.Part != d.at("dir") || !open.Owner {
		t.Errorf("a directory of another: %v", err)
	}
	if err := OfRoot.Walk(d.at("none/file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
	if got := (Trusted{0, 7950}).String(); got != "root and uid 7950" {
		t.Errorf("got %q", got)
	}
}

// The kernel is asked as the user, and this process stays root's.
func TestReadable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can look as another")
	}
	const none = ^uint32(0)
	for _, tt := range []struct {
		name    string
		arrange func(d *tree)
		want    string
	}{
		{"the user's", func(d *tree) { d.own("dir/file", 7950, 7950) }, ""},
		{"root's", nil, "dir/file: it cannot be read"},
		{"the user's, but not for reading", func(d *tree) { d.own("dir/file", 7950, 0); d.must(os.Chmod(d.at("dir/file"), 0o200)) }, "dir/file: it cannot be read"},
		{"root's, with a list for the user", func(d *tree) {
			d.acl("dir/file", aclEntry{aclUser, 4, 7950}, aclEntry{aclOwnerGroup, 0, none}, aclEntry{aclMask, 4, none}, aclEntry{aclEveryone, 0, none})
		}, ""},
		{"of the user's group", func(d *tree) { d.own("dir/file", 0, 7951); d.must(os.Chmod(d.at("dir/file"), 0o640)) }, ""},
		{"in a directory that is root's alone", func(d *tree) { d.own("dir/file", 7950, 0); d.must(os.Chmod(d.at("dir"), 0o700)) }, "dir: it cannot be searched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newTree(t)
			for dir := d.root; dir != os.TempDir(); dir = filepath.Dir(dir) {
				d.must(os.Chmod(dir, 0o755)) // a test's own directory is nobody else's
			}
			d.dir("dir", 0o755)
			d.file("dir/file", 0o600)
			if tt.arrange != nil {
				tt.arrange(d)
			}
			err := Readable(d.at("dir/file"), 7950, 7951)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != d.at(tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if f, err := os.Open(d.at("dir/file")); err != nil {
				t.Errorf("root itself: %v", err)
			} else {
				f.Close()
			}
		})
	}
}
