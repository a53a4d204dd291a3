package control

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Right is what a route needs of whoever asks.
type Right string

// The rights, each of which is given by itself.
const (
	// Read shows what the agent knows of itself, the cluster and its jobs.
	Read Right = "read"
	// Act changes something, or shows what commands have printed, which may be a secret.
	Act Right = "act"
	// Lend tells until when this host leads, on which the asker may act: nobody speaks for
	// a dead agent while somebody does, and a hand-over waits for who follows the lease.
	Lend Right = "lend"
)

// Rights are all, by their names in a configuration.
func Rights() []string { return []string{string(Read), string(Act), string(Lend)} }

// Access says who may use the socket besides root and the agent's own user, who may do
// everything. The zero Access lets nobody else in.
type Access struct {
	GID int     // of a group; 0: none
	May []Right // what its members may do
}

// access is an Access with the user whom the socket belongs to.
type access struct {
	Access
	owner int
}

// trusts reports whether a process may do everything.
func (a access) trusts(p peer) bool { return p.uid == 0 || p.uid >= 0 && p.uid == a.owner }

// grants reports whether a process may do that. Whoever is not of the group has been let in
// by an administrator who has opened the socket: he may look.
func (a access) grants(p peer, right Right) bool {
	switch {
	case p.uid < 0:
		return false
	case a.trusts(p):
		return true
	case a.GID != 0 && slices.Contains(p.groups, a.GID):
		return slices.Contains(a.May, right)
	}
	return right == Read
}

// permit refuses a request whose asker has not the right that its route needs.
func (s *server) permit(r *http.Request, to route) (peer, error) {
	asker, known := r.Context().Value(peerKey{}).(peer)
	if !known {
		asker.uid = -1 // the zero peer has root's uid
	}
	if to.needs == Read && !known || s.access.grants(asker, to.needs) {
		return asker, nil
	}
	if s.refusals.mayTell(asker.uid, time.Now()) {
		s.logger.Warn(to.name()+" refused", "addr", asker.String(), "cause", "not-permitted")
	}
	return asker, &APIError{
		Status:  http.StatusForbidden,
		Message: fmt.Sprintf("%s is not allowed to uid %d", to.name(), asker.uid),
		Hint:    "run it as root or as the agent's user" + s.access.hint(to.needs),
	}
}

// refusals bound how often the log tells of one user's refused requests: some at first, then
// one a minute. Who may connect may ask as often as he likes. Safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	of map[int]*rate.Limiter // by uid; nil: nobody's yet
}

const (
	refusalEvery = time.Minute
	refusalBurst = 8 // a person's tries, and a script's first ones. Arbitrary
	// maxRefused bounds the users that are told apart. Beyond it all begin anew.
	maxRefused = 256
)

// mayTell reports whether the log may tell of one more.
func (r *refusals) mayTell(uid int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	its, known := r.of[uid]
	if !known {
		if r.of == nil || len(r.of) >= maxRefused {
			r.of = make(map[int]*rate.Limiter)
		}
		its = rate.NewLimiter(rate.Every(refusalEvery), refusalBurst)
		r.of[uid] = its
	}
	return its.AllowN(now, 1)
}

// hint says how a member of the group could get the right.
func (a access) hint(right Right) string {
	if a.GID == 0 {
		return ""
	}
	return fmt.Sprintf(", or add %q to group_may in [control]", right)
}

// open lets the group pass through the socket's directory, if that is the agent's own, and
// connect.
func (a Access) open(path string, isNew bool) error {
	if a.GID == 0 {
		return nil
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	passes := info.Mode().Perm()&0o001 != 0 || ok && int(stat.Gid) == a.GID && info.Mode().Perm()&0o010 != 0
	if !passes && !isNew && filepath.Base(dir) != ownDir {
		return fmt.Errorf("group %d cannot pass through %s: chgrp it, and chmod g+x", a.GID, dir)
	}
	if !passes {
		if err := os.Chown(dir, -1, a.GID); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o750); err != nil {
			return err
		}
	}
	if err := os.Chown(path, -1, a.GID); err != nil {
		return err
	}
	return os.Chmod(path, 0o660)
}

// ownDir is what an agent's own directory is called, below /run and the like.
const ownDir = "bully-agent"

// groupsOf are the supplementary groups of the process at the other end, and its own.
func groupsOf(fd int, own uint32) (groups []int) {
	groups = append(groups, int(own))
	var ids [1 << 10]uint32 // who has more is of the first ones
	size := uint32(unsafe.Sizeof(ids))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&ids[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return groups
	}
	for _, id := range ids[:size/4] {
		groups = append(groups, int(id))
	}
	return groups
}

// checkListener refuses to speak with a process that has no business at this path: root
// listens here, this user, or whoever the socket's directory belongs to, if only he can put a
// socket there.
func checkListener(path string, conn net.Conn) error {
	p := peerOf(conn)
	if p.uid == 0 || p.uid == os.Geteuid() {
		return nil
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o022 == 0 {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == p.uid {
			return nil
		}
	}
	return fmt.Errorf("%w: %s of uid %d listens there, and %s is not its own", errForeign, p.describe(), p.uid, dir)
}
