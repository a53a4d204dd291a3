package holder

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// order is what a holder is told of the Config. It is a gob: a command line, unlike a text,
// may hold bytes that are not UTF-8.
type order struct {
	Argv, Env     []string
	Cwd           string
	Said          letter
	Budget, Grace time.Duration
	Cgroup        string
	Record        Record
	Path          string // of the record
	Others        []int  // the command's numbers for what the holder has from othersFD on
	Follows       bool   // the lease, on what comes after these
	Heard         []byte // of the lease's line, before that
}

// launch forks the holder's process, with the socket, its order and its record.
func (h *Holder) launch(o order, rec *record, stdin, stdout, stderr *os.File) error {
	var line *os.File // nil: no lease is followed
	if h.cfg.Lease != nil {
		var err error
		if line, o.Heard, err = h.cfg.Lease.PassOn(); err != nil {
			return err
		}
		defer line.Close()
	}
	o.Follows = line != nil
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(o); err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	paper, err := sidecar.MemoryFile("holder-order", text.Bytes())
	if err != nil {
		return err
	}
	defer paper.Close()
	others, err := duplicates(h.cfg.Others)
	defer closeAll(others)
	if err != nil {
		return fmt.Errorf("pass on descriptors: %w", err)
	}
	files := append([]*os.File{paper, rec.file}, others...) // orderFD, recordFD, othersFD and on
	if line != nil {
		files = append(files, line) // after them
	}
	cmd := exec.Command(h.cfg.program, Word)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stream(stdin), stream(stdout), stream(stderr)
	socket, err := sidecar.Start(cmd, files...)
	if err != nil {
		return err
	}
	h.begun(cmd, socket)
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
