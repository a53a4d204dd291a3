package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kind is what a board is about.
type kind byte

const (
	ofHost        kind = iota // status and members, at one moment
	ofEvents                  // the newest events, a line each
	ofHistory                 // leaderships
	ofJobs                    // the question says how many of the next slots
	ofExplanation             // the question names the member
	ofMetrics                 // the question says whether those of Go's runtime are wanted
	ofPort                    // names and certificate
	kinds
)

// The memory file begins with a page of words, and then has two slots for each kind. A slot has a head and a text:
//
//	0        8        16       20       24
//	┌────────┬────────┬────────┬────────┬───────────
//	│ number │ answer │ length │ sum    │ text …
//	└────────┴────────┴────────┴────────┴───────────
//
// The numbers of a board rise by one, and even ones are in the first slot: what was written last is whole while the next
// is being written. The sum is of all the rest, so that a slot which is written over meanwhile is known by it. Numbers are
// little-endian.
const (
	wordsSize = 4096
	headSize  = 24
	slotSize  = 4 << 20 // of memory that is not touched before it is used. Arbitrary: a member takes some 500 bytes
	mostText  = slotSize - headSize
)

var sums = crc32.MakeTable(crc32.Castagnoli)

// errTooLong is returned for a text that no board has room for.
var errTooLong = fmt.Errorf("it is longer than %d bytes", mostText)

func slotAt(k kind, number uint64) int64 {
	return wordsSize + int64(slotSize)*(2*int64(k)+int64(number%2))
}

// boards are written by one process, and read by others that cannot write them.
type boards struct {
	file     *os.File
	readOnly *os.File // the same memory, for others
	words    *words

	mu     [kinds]sync.Mutex
	number [kinds]uint64 // of what was written last
}

// words are what changes too often for a board. Each is whole by itself.
type words struct {
	lease atomic.Int64 // until when this host leads, as sidecar.Nano has it; 0: it does not
}

// newBoards makes empty ones.
func newBoards() (*boards, error) {
	fd, err := unix.MemfdCreate("bully-boards", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make boards: %w", err)
	}
	b := &boards{file: os.NewFile(uintptr(fd), "boards")}
	if err := b.furnish(fd); err != nil {
		b.close()
		return nil, fmt.Errorf("make boards: %w", err)
	}
	return b, nil
}

// furnish gives the file its size, for good, and makes the end that others get: whoever has that can read, and can
// make no other end of it.
func (b *boards) furnish(fd int) error {
	if err := unix.Ftruncate(fd, slotAt(kinds, 0)); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, 0o400); err != nil {
		return err
	}
	page, err := unix.Mmap(fd, 0, wordsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	b.words = (*words)(unsafe.Pointer(&page[0])) // for as long as this process lives
	b.readOnly, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err
}

func (b *boards) close() {
	b.file.Close()
	if b.readOnly != nil {
		b.readOnly.Close()
	}
}

// write puts a text on a board, as the answer to a question. After an error the board has what it had, and the next text
// finds it as if this one had never been.
func (b *boards) write(k kind, answer uint64, text []byte) error {
	if len(text) > mostText {
		return errTooLong
	}
	b.mu[k].Lock()
	defer b.mu[k].Unlock()
	number := b.number[k] + 1
	head := make([]byte, 0, headSize)
	head = binary.LittleEndian.AppendUint64(head, number)
	head = binary.LittleEndian.AppendUint64(head, answer)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(text)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Update(crc32.Checksum(head, sums), sums, text))
	at := slotAt(k, number)
	if _, err := b.file.WriteAt(text, at+headSize); err != nil {
		return err
	}
	if _, err := b.file.WriteAt(head, at); err != nil {
		return err
	}
	b.number[k] = number
	return nil
}

// A view is the boards as another process has them.
type view struct {
	file  *os.File
	words *words
}

func newView(file *os.File) (*view, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use boards: %w", err)
	}
	var page []byte
	var failed error
	err = raw.Control(func(fd uintptr) { page, failed = unix.Mmap(int(fd), 0, wordsSize, unix.PROT_READ, unix.MAP_SHARED) })
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("use boards: %w", err)
	}
	return &view{file: file, words: (*words)(unsafe.Pointer(&page[0]))}, nil
}

// lease is until when the host leads; zero: it does not.
func (v *view) lease() (until time.Time) {
	if at := v.words.lease.Load(); at != 0 {
		until = time.Unix(0, at)
	}
	return until
}

// A sheet is what was on a board.
type sheet struct {
	number uint64 // 0: nothing was ever written
	answer uint64 // the question
	text   []byte
}

// errTorn is returned where a board was written faster than it could be read.
var errTorn = errors.New("it is written while it is read")

// tries of a board that is written meanwhile. Arbitrary: it is written ten times a second, and read in a millisecond.
const tries = 16

// read gives what was written last, whole; the zero sheet if nothing ever was.
func (v *view) read(k kind) (sheet, error) {
	for range tries {
		var newest sheet
		for slot := range uint64(2) {
			if s, ok := v.readSlot(k, slot, newest.number); ok {
				newest = s
			}
		}
		if newest.number == v.number(k) { // else the newer one was written over meanwhile
			return newest, nil
		}
	}
	return sheet{}, errTorn
}

// readSlot gives what is in one slot; false: it is older than that, or not whole.
func (v *view) readSlot(k kind, slot, than uint64) (s sheet, ok bool) {
	head := make([]byte, headSize)
	at := slotAt(k, slot)
	if _, err := v.file.ReadAt(head, at); err != nil {
		return s, false
	}
	s.number, s.answer = binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[8:])
	size, sum := binary.LittleEndian.Uint32(head[16:]), binary.LittleEndian.Uint32(head[20:])
	if s.number <= than || s.number%2 != slot || size > mostText {
		return s, false
	}
	s.text = make([]byte, size)
	if _, err := v.file.ReadAt(s.text, at+headSize); err != nil {
		return s, false
	}
	return s, crc32.Update(crc32.Checksum(head[:20], sums), sums, s.text) == sum
}

// number is that of the text which was written last, or of the one that is being written; 0: there was none.
func (v *view) number(k kind) (newest uint64) {
	var head [8]byte
	for slot := range uint64(2) {
		if _, err := v.file.ReadAt(head[:], slotAt(k, slot)); err == nil {
			newest = max(newest, binary.LittleEndian.Uint64(head[:]))
		}
	}
	return newest
}
