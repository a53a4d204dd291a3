package cli

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
)

// port is one that could not be had.
type port struct {
	at       netip.AddrPort
	instance string   // that wants it; "": the agent without a name
	isLAN    bool     // other agents say which one they have
	stateDir string   // of the agent that wants it
	socket   string   // likewise
	flag     string   // that names it
	setting  string   // likewise, in the file
	tables   []string // of the kernel's, in which who has it is
}

func lanPort(cfg *config.Config) port {
	return port{cfg.Network.Bind, cfg.Instance, true, cfg.Node.StateDir, cfg.Control.Socket, "--bind", "bind", []string{"tcp", "tcp6", "udp", "udp6"}}
}

func httpPort(cfg *config.Config) port {
	return port{cfg.HTTP.Listen, cfg.Instance, false, cfg.Node.StateDir, cfg.Control.Socket, "--http-listen", "listen", []string{"tcp", "tcp6"}}
}

// who begins a message with the instance, where it has a name.
func (p port) who() string {
	if p.instance == "" {
		return ""
	}
	return "instance " + p.instance + ": "
}

// explainListen says who has the port, or what else a person can do about it.
// proc is where procfs is mounted, sockets are those of this host's agents by their instances' names.
func explainListen(proc string, sockets map[string]string, bind port, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		if pid, runs := agent.Holder(bind.stateDir); runs {
			return alreadyRuns(bind, pid)
		}
		if owner := ownerOf(sockets, bind); owner != "" {
			return &agent.Refusal{Err: fmt.Errorf("%sport %d belongs to %s: set %s", bind.who(), bind.at.Port(), owner, bind.setting)}
		}
		return &agent.Refusal{Err: fmt.Errorf("%sport in use: %v is held by %s", bind.who(), bind.at, portHolder(proc, bind)),
			Hint: "stop it, or choose another port with " + bind.flag}
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return &agent.Refusal{Err: err, Hint: bind.flag + " must be an address of this host; 0.0.0.0 and [::] are all of them"}
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EPERM):
		return &agent.Refusal{Err: err, Hint: "--device names an interface or a VRF of this host: see ip link"}
	case errors.Is(err, unix.EACCES):
		return &agent.Refusal{Err: err, Hint: "ports below 1024 are for root: choose another with " + bind.flag}
	}
	return err
}

// alreadyRuns is about a second start of one agent: it has the state directory, and so the port.
func alreadyRuns(bind port, pid int) error {
	text := fmt.Sprintf("%san agent already runs here: pid %d, state directory %s", bind.who(), pid, bind.stateDir)
	if pid != 0 && control.Listener(bind.socket) == pid {
		text += ", control socket " + bind.socket
	}
	return &agent.Refusal{Err: errors.New(text),
		Hint: "bully-agent status asks it; stop it before another start, or see --instance for a second agent on this host"}
}

// ownerOf asks the system's other agents which of them has the port; "": none says so. The kernel tells it to root alone, and
// who may not ask an agent does not learn it.
func ownerOf(sockets map[string]string, wanted port) string {
	for name, path := range sockets {
		if name == wanted.instance || !wanted.isLAN {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := control.Dial(path).Status(ctx)
		cancel()
		its, bad := netip.ParseAddrPort(status.Self.Addr)
		switch {
		case err != nil || bad != nil || its.Port() != wanted.at.Port():
		case name == "":
			return "the agent without an instance's name"
		default:
			return "instance " + name
		}
	}
	return ""
}

// portHolder describes the process that has a socket in the way of bind, as far
// as procfs tells: of other users' processes only root learns more than the uid.
func portHolder(proc string, bind port) string {
	holder := "another process"
	for _, table := range bind.tables {
		for _, s := range readSockets(filepath.Join(proc, "net", table)) {
			if !s.inTheWay(table, bind.at) {
				continue
			}
			if p := socketOwner(proc, s.inode); p != "" {
				return p
			}
			holder = "a process of uid " + s.uid
		}
	}
	return holder
}

// procSocket is one line of /proc/net/{tcp,udp}{,6} (proc_net(5)).
type procSocket struct {
	local             netip.AddrPort
	state, uid, inode string
}

// inTheWay reports whether nobody else can have bind because of s. A TCP socket
// that does not listen is a connection, and is not.
func (s procSocket) inTheWay(table string, bind netip.AddrPort) bool {
	const listening = "0A"
	if s.local.Port() != bind.Port() || (strings.HasPrefix(table, "tcp") && s.state != listening) {
		return false
	}
	a, b := s.local.Addr().Unmap(), bind.Addr().Unmap()
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}

func readSockets(path string) []procSocket {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var sockets []procSocket
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		field := strings.Fields(lines.Text())
		if len(field) < 10 {
			continue
		}
		if local, ok := parseProcAddr(field[1]); ok {
			sockets = append(sockets, procSocket{local: local, state: field[3], uid: field[7], inode: field[9]})
		}
	}
	return sockets
}

// parseProcAddr reads an address as the kernel prints it: 32-bit words in the
// host's byte order, then the port.
func parseProcAddr(text string) (netip.AddrPort, bool) {
	words, portText, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil || len(words)%8 != 0 {
		return netip.AddrPort{}, false
	}
	var raw []byte
	for ; words != ""; words = words[8:] {
		word, err := strconv.ParseUint(words[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(word))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(port)), ok
}

// socketOwner finds the process that has the socket open, or "". Of an agent, its keeper and its reader it is the agent.
func socketOwner(proc, inode string) (found string) {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	for _, f := range files {
		if target, err := os.Readlink(f); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		dir := filepath.Dir(filepath.Dir(f))
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		comm := strings.TrimSpace(string(name))
		found = fmt.Sprintf("pid %s (%s)", filepath.Base(dir), comm)
		if word, isPart := strings.CutPrefix(comm, "bully-"); !isPart || processes[word] == nil {
			return found
		}
	}
	return found
}
