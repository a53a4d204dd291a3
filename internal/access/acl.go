package access

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// A POSIX access control list gives rights to further users and groups. Where a file
// has one, the group's bits of its mode are the list's mask, and say nothing of the
// group any more (acl(5)). A directory's default list is no right to it: it becomes
// the access list of what is made in the directory later, which is looked at itself.
//
// The kernel gives the list as an extended attribute: a version, then eight bytes for
// each entry (linux/posix_acl_xattr.h), little endian.

const (
	aclName    = "system.posix_acl_access"
	aclVersion = 2
	aclHead    = 4
	aclLength  = 8 // of an entry: tag, rights, id

	// maxACL is the kernel's bound on an attribute.
	maxACL = 64 << 10
)

// The tags of entries, and the rights that matter.
const (
	aclUser       = 0x02
	aclOwnerGroup = 0x04
	aclGroup      = 0x08
	aclMask       = 0x10
	aclEveryone   = 0x20

	aclWrite = 2
	aclRead  = 4
)

type aclEntry struct {
	tag, rights uint16
	id          uint32
}

// String is the entry as getfacl(1) -n shows it.
func (e aclEntry) String() string {
	name := map[uint16]string{aclUser: "user:", aclOwnerGroup: "group:", aclGroup: "group:", aclMask: "mask:", aclEveryone: "other:"}[e.tag]
	if e.tag == aclUser || e.tag == aclGroup {
		name += strconv.FormatUint(uint64(e.id), 10)
	}
	rights := []byte("---")
	for i, letter := range "rwx" {
		if e.rights&(4>>i) != 0 {
			rights[i] = byte(letter)
		}
	}
	return name + ":" + string(rights)
}

// readACL gives the entries of a file that is no link; none if it has no list.
func readACL(path string) ([]aclEntry, error) {
	raw := make([]byte, 512)
	n, err := unix.Lgetxattr(path, aclName, raw)
	if errors.Is(err, unix.ERANGE) {
		raw = make([]byte, maxACL)
		n, err = unix.Lgetxattr(path, aclName, raw)
	}
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("check access: %s: read access control list: %w", path, err)
	}
	entries, err := parseACL(raw[:n])
	if err != nil {
		return nil, fmt.Errorf("check access: %s: %w", path, err)
	}
	return entries, nil
}

func parseACL(raw []byte) ([]aclEntry, error) {
	if len(raw) < aclHead || binary.LittleEndian.Uint32(raw) != aclVersion || (len(raw)-aclHead)%aclLength != 0 {
		return nil, errors.New("parse access control list: expected version 2")
	}
	var entries []aclEntry
	for raw = raw[aclHead:]; len(raw) > 0; raw = raw[aclLength:] {
		entries = append(entries, aclEntry{tag: binary.LittleEndian.Uint16(raw), rights: binary.LittleEndian.Uint16(raw[2:]),
			id: binary.LittleEndian.Uint32(raw[4:])})
	}
	return entries, nil
}

// another finds the first entry by which somebody who is not trusted has the right, on
// a file of this group.
func (t Trusted) another(entries []aclEntry, gid uint32, right uint16) (aclEntry, bool) {
	mask := right
	for _, e := range entries {
		if e.tag == aclMask {
			mask = e.rights
		}
	}
	for _, e := range entries {
		switch {
		case e.rights&right == 0:
		case e.tag == aclEveryone,
			e.tag == aclOwnerGroup && gid != 0 && mask&right != 0,
			e.tag == aclUser && !t.has(e.id) && mask&right != 0,
			e.tag == aclGroup && e.id != 0 && mask&right != 0:
			return e, true
		}
	}
	return aclEntry{}, false
}
