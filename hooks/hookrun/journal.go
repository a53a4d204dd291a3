package hookrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// journal is the file of what Lanes note. Writes are done by the backlog; only the newest note
// counts. Safe for concurrent use.
type journal struct {
	path    string
	backlog *backlog
	log     hclog.Logger
	noted   func(hooks.Noted)

	mu      sync.Mutex
	next    hooks.Note
	pending bool // Invariant: true while a write that will see next is queued
}

const journalName = "hook-journal.json"

// note writes a note, in its own time.
func (j *journal) note(n hooks.Note) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pending {
		n = n.InPlaceOf(j.next)
	}
	j.next = n
	if !j.pending {
		j.pending = true
		j.backlog.add(j.write)
	}
}

// write brings the file to the newest note.
func (j *journal) write() {
	j.mu.Lock()
	n := j.next
	j.pending = false
	j.mu.Unlock()
	err := j.replace(n)
	if err == nil && n.IsBegin {
		err = tryFile(j.path+".try", trySize)
	}
	if err != nil && !n.IsBegin { // of which the hook's end tells
		j.log.Error("hook journal not written", "err", err)
	}
	if n.IsBegin || n.IsLast {
		j.noted(hooks.Noted{Number: n.Number, Err: err})
	}
}

func (j *journal) replace(n hooks.Note) error {
	text, err := json.Marshal(n.Page)
	switch {
	case err != nil:
		return err
	case n.Page.IsBlank():
		if err = durable.Remove(j.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = replace(j.path, sealed(text), n.IsSync)
	}
	if err == nil && n.IsLast {
		err = durable.SyncDir(filepath.Dir(j.path))
	}
	return err
}

// tryFile writes a file, and removes it again.
func tryFile(path string, size int) error {
	err := replace(path, make([]byte, size), false)
	if removed := durable.Remove(path); err == nil {
		err = removed
	}
	return err
}

// trySize is at least what a file system gives to a file, and more than a page takes.
const trySize = 4 << 10

// replace puts a new file in the place of one: whoever reads sees one or the other. After
// a loss of power that is so only if it is synced. One process at a time replaces a file, so the new
// one has a fixed name until then: what a crash leaves of it, the next one overwrites.
func replace(path string, text []byte, synced bool) error {
	return durable.Swap(path, path+".new", text, synced)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed adds a line with the checksum: one bit of the disk could else make another epoch
// of what is due, or none.
func sealed(text []byte) []byte {
	return fmt.Appendf(text, "\n%08x\n", crc32.Checksum(text, castagnoli))
}

var errChecksum = errors.New("damaged: its checksum does not match")

func unsealed(file []byte) (text []byte, err error) {
	const tail = len("\n01234567\n")
	text = file[:max(len(file)-tail, 0)]
	if !bytes.Equal(sealed(bytes.Clone(text)), file) {
		return nil, errChecksum
	}
	return text, nil
}

// load reads what is on disk. No file is a blank page.
func (j *journal) load() (hooks.Page, error) {
	text, err := durable.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return hooks.Page{}, nil
	}
	if err != nil {
		return hooks.Page{}, fmt.Errorf("load hook journal: %w", err)
	}
	var left hooks.Page
	if text, err = unsealed(text); err == nil {
		err = json.Unmarshal(text, &left)
	}
	if err != nil {
		return hooks.Page{}, fmt.Errorf("load hook journal: %s: %w", j.path, err)
	}
	return left, nil
}

// open gives what an earlier life has noted. Of a file that others could have written it
// believes nothing that is run.
func (j *journal) open() (hooks.Page, error) {
	left, err := j.load()
	if err != nil || !isOurs(j.path) {
		left.Kept = nil
	}
	return left, err
}

// isOurs reports whether nobody else could have written a file: what it says is run.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() {
		return false
	}
	return stat.Uid != 0 || trust.CheckPath(path) == nil
}
