package access

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree is a directory in which a test arranges what it needs. The test's own
// temporary directory is below a sticky /tmp, so its parents are fit.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) *tree {
	d := &tree{t: t, root: t.TempDir()}
	if err := OfThisProcess().Walk(d.root); err != nil {
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
	d.must(os.WriteFile(d.at(name), nil, 0o600))
	d.must(os.Chmod(d.at(name), mode))
}

func (d *tree) dir(name string, mode os.FileMode) {
	d.must(os.Mkdir(d.at(name), 0o700))
	d.must(os.Chmod(d.at(name), mode))
}

func (d *tree) own(name string, uid, gid int) {
	d.must(os.Lchown(d.at(name), uid, gid))
}

// acl gives a file of the tree an access control list, as setfacl does.
func (d *tree) acl(name string, entries ...aclEntry) {
	d.t.Helper()
	d.list(aclName, name, entries...)
}

func (d *tree) list(attribute, name string, entries ...aclEntry) {
	d.t.Helper()
	all := append([]aclEntry{{0x01, 7, ^uint32(0)}}, entries...)
	raw := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range all {
		raw = binary.LittleEndian.AppendUint16(raw, e.tag)
		raw = binary.LittleEndian.AppendUint16(raw, e.rights)
		raw = binary.LittleEndian.AppendUint32(raw, e.id)
	}
	err := unix.Setxattr(d.at(name), attribute, raw, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		d.t.Skip("the temporary directory's file system has no access control lists")
	}
	d.must(err)
}

// The group's bits of a mode are the mask where there is a list, and root's group
// does not make up for a user who may write.
func TestCheckACL(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that are root's")
	}
	const none = ^uint32(0)
	group, mask, other := aclEntry{aclOwnerGroup, 5, none}, aclEntry{aclMask, 7, none}, aclEntry{aclEveryone, 5, none}
	for _, tt := range []struct {
		name    string
		arrange func(d *tree)
		want    string // empty: nobody but root can change it
	}{
		{"user", func(d *tree) { d.acl("dir/hook", aclEntry{aclUser, 7, 65534}, group, mask, other) },
			"dir/hook: writable by another through the access control list (user:65534:rwx)"},
		{"group", func(d *tree) { d.acl("dir/hook", group, aclEntry{aclGroup, 6, 50}, mask, other) }, "dir/hook: writable by another through the access control list (group:50:rw-)"},
		{"user of the directory", func(d *tree) { d.acl("dir", aclEntry{aclUser, 7, 65534}, group, mask, other) },
			"dir: writable by another through the access control list (user:65534:rwx): setfacl -b it"},
		{"the file's own group", func(d *tree) {
			d.own("dir/hook", 0, 50)
			d.acl("dir/hook", aclEntry{aclUser, 5, 65534}, aclEntry{aclOwnerGroup, 7, none}, mask, other)
		}, "(group::rwx)"},
		{"root's group", func(d *tree) {
			d.acl("dir/hook", aclEntry{aclUser, 5, 65534}, aclEntry{aclOwnerGroup, 7, none}, mask, other)
		}, ""},
		{"users who may read", func(d *tree) { d.acl("dir/hook", aclEntry{aclUser, 5, 65534}, group, mask, other) }, ""},
		{"the mask takes it back", func(d *tree) {
			d.acl("dir/hook", aclEntry{aclUser, 7, 65534}, group, aclEntry{aclMask, 5, none}, other)
		}, ""},
		{"users who may read, a group with a mask", func(d *tree) {
			d.own("dir/hook", 0, 50)
			d.acl("dir/hook", aclEntry{aclUser, 5, 65534}, group, mask, other)
		}, ""},
		{"root by name", func(d *tree) {
			d.acl("dir/hook", aclEntry{aclUser, 7, 0}, group, aclEntry{aclGroup, 7, 0}, mask, other)
		}, ""},
		{"what is made in the directory", func(d *tree) {
			d.list("system.posix_acl_default", "dir", aclEntry{aclUser, 7, 65534}, group, mask, other)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newTree(t)
			d.dir("dir", 0o755)
			d.file("dir/hook", 0o755)
			tt.arrange(d)
			err := OfRoot.Walk(d.at("dir/hook"))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("err = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestParseACL(t *testing.T) {
	for _, bad := range []string{"", "\x02\x00\x00", "\x01\x00\x00\x00", "\x02\x00\x00\x00\x01"} {
		if entries, err := parseACL([]byte(bad)); err == nil {
			t.Errorf("parsed %q as %v", bad, entries)
		}
	}
}
