package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
)

// fakeProc is a procfs with one listener, one connection and one UDP socket.
func fakeProc(t *testing.T) string {
	t.Helper()
	proc := t.TempDir()
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	write := func(name, text string) {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// 7950 is 1F0E, 7951 is 1F0F.
	write("net/tcp", head+
		"   0: 0100007F:1F0E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:1F0F 0100007F:8888 01 00000000:00000000 00:00000000 00000000     0        0 1002 1 0 100 0 0 10 0\n")
	write("net/tcp6", head+
		"   0: 00000000000000000000000000000000:1F10 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  33        0 1003 1 0 100 0 0 10 0\n")
	write("net/udp", head+
		"  77: 0200000A:1F11 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 1004 2 0 0\n")
	write("4711/comm", "nginx\n")
	write("4711/fd/0", "")
	if err := os.Symlink("socket:[1001]", filepath.Join(proc, "4711/fd/5")); err != nil {
		t.Fatal(err)
	}
	return proc
}

// bound is a configuration that wants a port.
func bound(at string) *config.Config {
	return &config.Config{Network: config.Network{Bind: netip.MustParseAddrPort(at)}}
}

func TestPortHolder(t *testing.T) {
	proc := fakeProc(t)
	for bind, want := range map[string]string{
		"127.0.0.1:7950": "pid 4711 (nginx)",
		"0.0.0.0:7950":   "pid 4711 (nginx)",
		"10.0.0.1:7950":  "another process",       // the listener is on another address
		"127.0.0.1:7951": "another process",       // a connection is in nobody's way
		"10.0.0.1:7952":  "a process of uid 33",   // [::] takes IPv4 too; its process is hidden
		"10.0.0.2:7953":  "a process of uid 1000", // UDP
	} {
		if got := portHolder(proc, lanPort(bound(bind))); got != want {
			t.Errorf("%s is held by %q, expected %q", bind, got, want)
		}
	}
	if got := portHolder(proc, httpPort(&config.Config{HTTP: config.HTTP{Listen: netip.MustParseAddrPort("10.0.0.2:7953")}})); got != "another process" {
		t.Errorf("a socket of UDP is in the way of HTTP: %s", got)
	}
}

func TestPortHolderOnThisHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	if got, want := portHolder("/proc", lanPort(bound(addr))), fmt.Sprintf("pid %d (", os.Getpid()); !strings.HasPrefix(got, want) {
		t.Errorf("%v is held by %q, expected %q…)", addr, got, want)
	}
}

func TestListenErrorsSayWhatToDo(t *testing.T) {
	bind := bound("127.0.0.1:7950")
	for errno, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE:    "port in use: 127.0.0.1:7950 is held by pid 4711 (nginx); hint: stop it, or choose another port with --bind",
		syscall.EADDRNOTAVAIL: "; hint: --bind must be an address of this host",
		syscall.EACCES:        "; hint: ports below 1024 are for root",
	} {
		err := explainListen(fakeProc(t), nil, lanPort(bind), fmt.Errorf("listen: %w", errno))
		if refusal := (*agent.Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, expected %q", errno, err, want)
		}
	}
	if err := explainListen("/proc", nil, lanPort(bind), syscall.EMFILE); exitCode(err) != exitNo {
		t.Errorf("too many open files: %v may pass, so a supervisor should try again", err)
	}
}

// Who starts an agent twice learns that it runs, with its pid and where it is asked: the port is not to blame.
func TestASecondStartIsSaid(t *testing.T) {
	cfg := bound("127.0.0.1:7950")
	cfg.Node.StateDir, cfg.Control.Socket = t.TempDir(), agentAt(t, "127.0.0.1:7950")
	lock, err := os.Create(filepath.Join(cfg.Node.StateDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	said := func() string { return explainListen(fakeProc(t), nil, lanPort(cfg), syscall.EADDRINUSE).Error() }
	if got := said(); !strings.HasPrefix(got, "port in use: ") {
		t.Errorf("no agent holds the state directory: %s", got)
	}
	fmt.Fprintln(lock, os.Getpid())
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	runs := fmt.Sprintf("an agent already runs here: pid %d, state directory %s", os.Getpid(), cfg.Node.StateDir)
	if got := said(); !strings.HasPrefix(got, runs+", control socket "+cfg.Control.Socket+"; hint: bully-agent status asks it") {
		t.Errorf("got %s", got)
	}
	cfg.Control.Socket, cfg.Instance = filepath.Join(t.TempDir(), "other.sock"), "web"
	if got := said(); !strings.HasPrefix(got, "instance web: "+runs+"; hint: ") {
		t.Errorf("got %s", got)
	}
}

// Whoever has the port says so itself: the kernel tells no agent's user which of two agents of this user it is.
func TestPortOfAnotherInstance(t *testing.T) {
	sockets := map[string]string{"db": agentAt(t, "10.0.0.1:7950"), "web": agentAt(t, "10.0.0.1:7950"), "gone": filepath.Join(t.TempDir(), "agent.sock"),
		"": agentAt(t, "10.0.0.1:7951")}
	for _, tt := range []struct{ instance, at, want string }{
		{"web", "0.0.0.0:7950", "instance web: port 7950 belongs to instance db: set bind"},
		{"web", "0.0.0.0:7951", "instance web: port 7951 belongs to the agent without an instance's name: set bind"},
		{"", "0.0.0.0:7951", "port in use: 0.0.0.0:7951 is held by another process; hint: stop it, or choose another port with --bind"},
		{"web", "0.0.0.0:7959", "instance web: port in use: 0.0.0.0:7959 is held by another process; hint: stop it, or choose another port with --bind"},
	} {
		cfg := bound(tt.at)
		cfg.Instance = tt.instance
		if err := explainListen(fakeProc(t), sockets, lanPort(cfg), syscall.EADDRINUSE); err.Error() != tt.want || exitCode(err) != exitConfig {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

// agentAt answers as an agent that others reach there, and gives its socket.
func agentAt(t *testing.T, addr string) (socket string) {
	t.Helper()
	p := newPuppet(t)
	p.status.Self.Addr = addr
	p.serve(t)
	return p.socket
}
