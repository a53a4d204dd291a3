package glass

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Session is a process on a terminal of its own.
type Session struct {
	*testing.T
	cmd    *exec.Cmd
	master *os.File
	before unix.Termios
	ended  chan error

	mu   sync.Mutex
	seen *Terminal
}

// patience is how long something may take on a machine that does other things too.
const patience = 20 * time.Second

// Run starts cmd on a new terminal, which is its controlling one, until the test ends.
func Run(t *testing.T, cmd *exec.Cmd, width, height int) *Session {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	s := &Session{T: t, cmd: cmd, master: master, ended: make(chan error, 1), seen: New(width, height)}
	fd := s.fd()
	s.must(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	s.must(err)
	s.setSize(width, height)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	s.must(err)
	s.before = s.mode()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.must(cmd.Start())
	s.must(slave.Close())
	go s.read()
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = master.Close()
	})
	return s
}

func (s *Session) fd() int {
	raw, err := s.master.SyscallConn() // Fd would make it blocking, and Close wait for Read
	s.must(err)
	var fd int
	s.must(raw.Control(func(f uintptr) { fd = int(f) }))
	return fd
}

func (s *Session) must(err error) {
	if s.Helper(); err != nil {
		s.Fatal(err)
	}
}

func (s *Session) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.seen.Write(string(buf[:n]))
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *Session) setSize(width, height int) {
	s.must(unix.IoctlSetWinsize(s.fd(), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}))
}

func (s *Session) mode() unix.Termios {
	mode, err := unix.IoctlGetTermios(s.fd(), unix.TCGETS)
	s.must(err)
	return *mode
}

// Resize changes the window's size, of which the process is told.
func (s *Session) Resize(width, height int) {
	s.mu.Lock()
	s.seen.Resize(width, height)
	s.mu.Unlock()
	s.setSize(width, height)
}

// Type presses keys.
func (s *Session) Type(keys string) {
	_, err := s.master.WriteString(keys)
	s.must(err)
}

// Signal sends one to the process.
func (s *Session) Signal(sig syscall.Signal) { s.must(s.cmd.Process.Signal(sig)) }

// Until waits for a screen that is as it should be, and returns it.
func (s *Session) Until(what string, isRight func(screen string) bool) string {
	s.Helper()
	screen := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		screen = s.seen.String()
		s.mu.Unlock()
		if isRight(screen) {
			return screen
		}
	}
	s.Fatalf("the screen never came to show %s; it shows\n%s", what, screen)
	return ""
}

// UntilShows waits for a text on the screen.
func (s *Session) UntilShows(text string) string {
	s.Helper()
	return s.Until(text, func(screen string) bool { return strings.Contains(screen, text) })
}

// End waits for the end of the process, and has the terminal be as it was before.
func (s *Session) End() error {
	s.Helper()
	var err error
	select {
	case err = <-s.ended:
	case <-time.After(patience):
		s.Fatalf("the process does not end; the screen shows\n%s", s.seen)
	}
	isRestored := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.seen.Other && !s.seen.Hidden && s.mode() == s.before
	}
	for deadline := time.Now().Add(patience); !isRestored() && time.Now().Before(deadline); { // what it wrote last may not be read yet
		time.Sleep(5 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.Other || s.seen.Hidden || s.mode() != s.before {
		s.Errorf("the terminal is not as it was: other screen %t, cursor hidden %t, mode %+v, was %+v", s.seen.Other, s.seen.Hidden, s.mode(), s.before)
	}
	if len(s.seen.Unknown) > 0 {
		s.Errorf("sequences that not every terminal may know: %v", s.seen.Unknown)
	}
	return err
}

// IsColoured reports whether a colour was asked for.
func (s *Session) IsColoured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.Coloured
}

// Painted is what is on the screen now, for Show.
func (s *Session) Painted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.Painted()
}
