package run

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Archive is a directory that keeps the last runs of commands, one file each: a line of JSON that
// says what ran and how it ended, then the end of what it printed. It is for people, so
// nothing is synced. A file's name begins with the number of its run, which rises, and so
// survives a restart.
type Archive string

// ArchiveSize is how many runs are kept; with their output at most 3.2 MiB.
const ArchiveSize = 50

// Kept is a run in an archive.
type Kept struct {
	Seq  uint64
	path string
}

// Keep files a run, and removes the oldest beyond ArchiveSize. What the directory's parent
// does not let people see they do not see.
func (a Archive) Keep(seq uint64, about string, row any, printed []byte) error {
	head, err := json.Marshal(row)
	if err != nil {
		panic("BUG: encode row: " + err.Error()) // strings, numbers and times always encode
	}
	name := filepath.Join(string(a), fmt.Sprintf("%012d%s.log", seq, about))
	err = os.WriteFile(name, bytes.Join([][]byte{head, printed}, []byte{'\n'}), 0o640)
	all, unread := a.All()
	err = errors.Join(err, unread)
	for _, k := range all[:max(0, len(all)-ArchiveSize)] {
		err = errors.Join(err, os.Remove(k.path))
	}
	return err
}

// All lists what is kept, the oldest first. A directory that is not there is empty.
func (a Archive) All() (all []Kept, err error) {
	found, err := os.ReadDir(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range found {
		name, isLog := strings.CutSuffix(f.Name(), ".log")
		number, _, _ := strings.Cut(name, "-")
		if seq, bad := strconv.ParseUint(number, 10, 64); bad == nil && isLog {
			all = append(all, Kept{Seq: seq, path: filepath.Join(string(a), f.Name())})
		}
	}
	SortKept(all)
	return all, err
}

// Find gives the run with a number; fs.ErrNotExist if it is not kept. Should two have it, which a crash makes possible, it is
// the later one.
func (a Archive) Find(seq uint64) (Kept, error) {
	all, err := a.All()
	for _, k := range slices.Backward(all) {
		if k.Seq == seq {
			return k, nil
		}
	}
	return Kept{}, cmp.Or(err, fs.ErrNotExist)
}

// SortKept sorts runs, also of several archives, the oldest first.
func SortKept(all []Kept) {
	slices.SortFunc(all, func(a, b Kept) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.path, b.path)) })
}

// Row reads what ran. It fails for a file that is being written, or is gone.
func (k Kept) Row(row any) error {
	f, err := os.Open(k.path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := bufio.NewReaderSize(f, 1<<10).ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(head, row)
}

// Printed reads the end of what it printed.
func (k Kept) Printed() ([]byte, error) {
	text, err := os.ReadFile(k.path)
	_, printed, _ := bytes.Cut(text, []byte{'\n'})
	return printed, err
}
