package boot

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// running is a container, from its start to its end, over reboots.
type running struct {
	cmd     *exec.Cmd
	first   atomic.Int64  // number, here, of the container's first process
	up      chan struct{} // one for each boot that is complete
	ended   chan struct{} // closed when the container is gone
	console traces.Buffer
	notify  *net.UnixConn
	machine string   // systemd-nspawn's name for it, which is no other container's
	groups  []string // control groups that were made for it
}

// start starts a container with a host's disk and network. It learns from systemd-nspawn's notifications what happens in it.
func start(h *Host) (*running, error) {
	r := &running{machine: string(h.net), up: make(chan struct{}, 16), ended: make(chan struct{})}
	socket := filepath.Join(h.dir, "notify")
	_ = os.Remove(socket) // of the last time
	var err error
	if r.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}); err != nil {
		return nil, err
	}
	args := []string{"systemd-nspawn", "--quiet", "--boot", "--register=no", "--notify-ready=yes", "--console=pipe",
		"--directory=" + h.root(), "--machine=" + string(h.net), "--hostname=" + h.name, "--network-namespace-path=" + h.net.Path(),
		// As on a host, where systemd has them to give to units.
		"--capability=CAP_NET_ADMIN,CAP_IPC_LOCK,CAP_SYS_RESOURCE", "--resolv-conf=off", "--timezone=off", "--link-journal=no"}
	if _, err := os.Stat("/run/systemd/system"); err != nil { // nobody here would make it a scope
		if r.groups, err = makeGroups(string(h.net)); err != nil {
			r.close()
			return nil, err
		}
		args = append(args, "--keep-unit")
	}
	// The shell moves itself, so that what follows is born in its groups. 133 is a reboot that systemd-nspawn leaves to whoever
	// started it, as it does where it got no scope.
	script := `for g in $GROUPS_OF; do echo $$ > "$g/cgroup.procs" || exit; done; while "$@"; [ $? = 133 ]; do :; done`
	r.cmd = exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	r.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "GROUPS_OF="+strings.Join(r.groups, " "))
	r.cmd.Stdout, r.cmd.Stderr = &r.console, &r.console
	if err := r.cmd.Start(); err != nil {
		r.close()
		return nil, err
	}
	go r.listen()
	go func() {
		_ = r.cmd.Wait() // how it ended is on the console
		r.close()
		close(r.ended)
	}()
	return r, nil
}

// hierarchies of control groups that a systemd may use; which are there is the kernel's and the host's choice.
var hierarchies = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"}

// makeGroups makes a group of the container's own in each hierarchy that a systemd could use: two containers would else
// meet in the same, where each takes itself for alone.
func makeGroups(name string) (groups []string, err error) {
	for _, hierarchy := range hierarchies {
		if _, err := os.Stat(filepath.Join(hierarchy, "cgroup.procs")); err != nil {
			continue
		}
		group := filepath.Join(hierarchy, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return groups, fmt.Errorf("make control group: %w", err)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// listen takes in sd_notify(3)'s lines until the socket is closed.
func (r *running) listen() {
	datagram := make([]byte, 4096)
	for {
		n, err := r.notify.Read(datagram)
		if err != nil {
			return
		}
		for line := range bytes.Lines(datagram[:n]) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
			switch key {
			case "X_NSPAWN_LEADER_PID":
				if pid, err := strconv.ParseInt(value, 10, 32); err == nil {
					r.first.Store(pid)
				}
			case "READY":
				r.up <- struct{}{}
			}
		}
	}
}

func (r *running) firstProcess() int { return int(r.first.Load()) }

func (r *running) awaitBoot() error {
	select {
	case <-r.up:
		return nil
	case <-r.ended:
		return errors.New("systemd-nspawn has ended")
	case <-time.After(patience):
		return fmt.Errorf("not up within %v", patience)
	}
}

func (r *running) awaitEnd() error {
	select {
	case <-r.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("still there after %v", patience)
	}
}

// close takes away what the container leaves behind outside of itself.
func (r *running) close() {
	r.notify.Close()
	_ = os.RemoveAll("/run/systemd/nspawn/propagate/" + r.machine) // it does so itself, but where /run is a disk
	for _, group := range r.groups {
		removeGroups(group)
	}
}

// removeGroups removes a group and those in it, which have no processes.
func removeGroups(group string) {
	inner, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
	for _, procs := range inner {
		removeGroups(filepath.Dir(procs))
	}
	_ = unix.Rmdir(group) // a process may still be on its way out of it
}
