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

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// order is what a guard is told of the Config, in JSON.
type order struct {
	Argv, Env     byteStrings
	Cwd           byteString
	Deadline      instant
	StartBy       instant
	Budget, Grace time.Duration
	Cgroup        string
	Record        Record
	Path          string // of the record
	Others        []int  // the command's numbers for what the guard has from othersFD on
	Follows       bool   // the lease, on what comes after these
	Heard         []byte // of the lease's line, before that

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
	line, heard, err := followed(cfg.Lease)
	if err != nil {
		return err
	}
	defer line.Close() // a nil file takes no harm
	env := append(cfg.Env[:len(cfg.Env):len(cfg.Env)], markVariable+"="+rec.Mark)
	text, err := json.Marshal(order{Argv: toBytes(cfg.Argv), Env: toBytes(env),
		Cwd: byteString(cfg.Cwd), Deadline: sidecar.Convert(cfg.Deadline, cfg.Clock), StartBy: sidecar.Convert(cfg.StartBy, cfg.Clock),
		Budget: cfg.Budget, Grace: cfg.Grace, Cgroup: cfg.Cgroup, Record: rec.Record, Path: rec.path, Others: cfg.Others, Follows: line != nil, Heard: heard})
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	letter, err := sidecar.MemoryFile("guard-order", text)
	if err != nil {
		return err
	}
	defer letter.Close()
	others, err := duplicates(cfg.Others)
	defer closeAll(others)
	if err != nil {
		return fmt.Errorf("pass on descriptors: %w", err)
	}
	ours, theirs, err := sidecar.SocketPair("guard")
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(cfg.Program[0], cfg.Program[1:]...)
	cmd.Args[0] = processName
	cmd.Env = sidecar.Environ()
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stream(cfg.Stdin), stream(cfg.Stdout), stream(cfg.Stderr)
	cmd.ExtraFiles = []*os.File{theirs, letter, rec.file} // socketFD, orderFD, recordFD
	cmd.ExtraFiles = append(cmd.ExtraFiles, others...)    // othersFD and on
	if line != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, line) // after them
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return err
	}
	g.cmd, g.socket = cmd, ours
	return nil
}

// followed is the line of the lease that the guard follows; nil: it follows none.
func followed(lease *control.Tenure) (line *os.File, heard []byte, err error) {
	if lease == nil {
		return nil, nil, nil
	}
	return lease.PassOn()
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
