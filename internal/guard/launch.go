package guard

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// order is what a guard is told of the Config, in JSON.
type order struct {
	Argv, Env     byteStrings
	Cwd           byteString
	Deadline      instant
	StartBy       instant
	Budget, Grace time.Duration
	Lose          *Lose
	Cgroup        string
	Record        Record
	Path          string // of the record
	Others        []int  // the command's numbers for what the guard has from othersFD on
	Holds         bool   // something after these

	others []*os.File // those, in the guard
}

// byteString passes through JSON as it is: a command line, unlike a text, may hold
// bytes that are not UTF-8.
type byteString string

func (s byteString) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(s)) }

func (s *byteString) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*s = byteString(b)
	return err
}

type byteStrings []byteString

func toBytes(words []string) byteStrings {
	out := make(byteStrings, len(words))
	for i, w := range words {
		out[i] = byteString(w)
	}
	return out
}

func (s byteStrings) words() []string {
	out := make([]string, len(s))
	for i, b := range s {
		out[i] = string(b)
	}
	return out
}

// processName is what process lists show instead of the path that is executed, and
// which says nothing to people: "bully-agent guard".
const processName = "bully-agent"

// launch forks the guard process, with the socket, its order and its record.
func (g *Guard) launch(cfg Config, rec *record) error {
	env := append(cfg.Env[:len(cfg.Env):len(cfg.Env)], markVariable+"="+rec.Mark)
	text, err := json.Marshal(order{Argv: toBytes(cfg.Argv), Env: toBytes(env),
		Cwd: byteString(cfg.Cwd), Deadline: convert(cfg.Deadline, cfg.Clock), StartBy: convert(cfg.StartBy, cfg.Clock),
		Budget: cfg.Budget, Grace: cfg.Grace, Lose: cfg.Lose, Cgroup: cfg.Cgroup, Record: rec.Record, Path: rec.path, Others: cfg.Others, Holds: cfg.Hold != nil})
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	letter, err := memoryFile(text)
	if err != nil {
		return err
	}
	defer letter.Close()
	others, err := duplicates(cfg.Others)
	defer closeAll(others)
	if err != nil {
		return fmt.Errorf("pass on descriptors: %w", err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(cfg.Program[0], cfg.Program[1:]...)
	cmd.Args[0] = processName
	cmd.Env = guardEnviron()
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stream(cfg.Stdin), stream(cfg.Stdout), stream(cfg.Stderr)
	cmd.ExtraFiles = []*os.File{theirs, letter, rec.file} // socketFD, orderFD, recordFD
	cmd.ExtraFiles = append(cmd.ExtraFiles, others...)    // othersFD and on
	if cfg.Hold != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, cfg.Hold) // after them, and left alone until the guard's own end
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return err
	}
	g.cmd, g.socket = cmd, ours
	return nil
}

// duplicates gives files of descriptors that their owner keeps.
func duplicates(fds []int) (files []*os.File, err error) {
	for _, fd := range fds {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, othersFD)
		if err != nil {
			return files, err
		}
		files = append(files, os.NewFile(uintptr(own), "inherited"))
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// stream keeps a nil file from becoming an interface that is not nil.
func stream(f *os.File) io.ReadWriter {
	if f == nil {
		return nil
	}
	return f
}

// guardEnviron is the guard's own environment: what hooks inherit from an agent,
// and what keeps a Go program small.
func guardEnviron() []string {
	env := []string{"GOMAXPROCS=1", "GOGC=50"}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// memoryFile holds the order: it may be longer than a message or a pipe.
func memoryFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("guard-order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make order: %w", err)
	}
	f := os.NewFile(uintptr(fd), "guard-order")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make order: %w", err)
	}
	return f, nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "agent"), nil
}
