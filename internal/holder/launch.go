package holder

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// order is what a holder is told of the Config. It is a file in memory: a line of JSON, and then what may
// have any bytes but zeros: Cwd, Path, and the words of Argv and Env, with a zero byte after each.
type order struct {
	Argv, Env     []string `json:"-"`
	Words         int      // of Argv
	Cwd           string   `json:"-"`
	Said          letter
	Budget, Grace time.Duration
	Cgroup        string
	Record        Record
	Path          string `json:"-"` // of the record
	Others        []int  // the command's numbers for what the holder has from othersFD on
	Follows       bool   // the lease, on what comes after these
	Heard         []byte // of the lease's line, before that
}

func encodeOrder(o order) []byte {
	o.Words = len(o.Argv)
	text := append(sidecar.Encode(o), '\n')
	for _, words := range [][]string{{o.Cwd, o.Path}, o.Argv, o.Env} {
		for _, word := range words {
			text = append(append(text, word...), 0)
		}
	}
	return text
}

func decodeOrder(text []byte) (*order, error) {
	line, rest, _ := bytes.Cut(text, []byte{'\n'})
	o := &order{}
	if err := sidecar.Decode(line, o); err != nil {
		return nil, err
	}
	words := strings.Split(string(rest), "\x00") // and what follows the last one, which is empty
	if n := len(words) - 3; o.Words < 0 || o.Words > n {
		return nil, fmt.Errorf("it has %d words, and should have %d", n, o.Words)
	}
	o.Cwd, o.Path, words = words[0], words[1], words[2:len(words)-1]
	o.Argv, o.Env = words[:o.Words], words[o.Words:]
	return o, nil
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
	text := encodeOrder(o)
	if len(text) > sidecar.MaxMessage {
		return fmt.Errorf("command line and environment have %d bytes together, of at most %d", len(text), sidecar.MaxMessage)
	}
	paper, err := memoryFile("holder-order", text)
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

// memoryFile holds a text in memory alone, to be read from its start.
func memoryFile(name string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	return f, nil
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
