package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Slots is a file of two slots of one page each, written alternately: a write that
// power loss tears spoils one, and the other still has the content before. A slot, big
// endian:
//
//	offset  size  field
//	0       4     the format's magic
//	4       2     the version of the content
//	6       2     length of the slot with the checksum
//	8       8     number of the write; the valid slot with the higher one counts
//	16      n     content
//	16+n    4     CRC32C of all before
//
// One goroutine at a time may use it.
type Slots struct {
	format Format
	path   string
	file   *file
	number uint64 // of the last write that is on the disk; 0: there is none
}

// Format says whose slots they are.
type Format struct {
	Magic   string // 4 bytes
	Version uint16 // of what Append writes; Parse refuses higher ones
}

const (
	// SlotSize is the room of a slot: a page, which a disk writes whole or not.
	SlotSize = 4096

	slotHead = 16
	slotTail = 4

	// MaxContent is how long a slot's content can be.
	MaxContent = SlotSize - slotHead - slotTail
)

var (
	// ErrCorrupt is returned for a file without a slot that was written whole.
	ErrCorrupt = errors.New("no slot has a valid checksum")

	// ErrNewer is returned when a whole slot is of a version that is not known here.
	ErrNewer = errors.New("written by a newer version of bully-agent")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Slot is one slot as it was read.
type Slot struct {
	Number  uint64
	Version uint16
	Content []byte
}

// Append gives the bytes of a slot. Content that does not fit is a bug of the caller.
func (f Format) Append(number uint64, content []byte) []byte {
	if len(content) > MaxContent {
		panic(fmt.Sprintf("BUG: %d bytes for a slot of %s", len(content), f.Magic))
	}
	b := make([]byte, 0, SlotSize)
	b = append(b, f.Magic...)
	b = binary.BigEndian.AppendUint16(b, f.Version)
	b = binary.BigEndian.AppendUint16(b, uint16(slotHead+len(content)+slotTail))
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, content...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Parse reads one slot. The content is the caller's.
func (f Format) Parse(b []byte) (Slot, error) {
	if len(b) < slotHead+slotTail || !bytes.HasPrefix(b, []byte(f.Magic)) {
		return Slot{}, ErrCorrupt
	}
	length := int(binary.BigEndian.Uint16(b[6:]))
	if length < slotHead+slotTail || length > len(b) {
		return Slot{}, ErrCorrupt
	}
	b = b[:length]
	if crc32.Checksum(b[:length-slotTail], castagnoli) != binary.BigEndian.Uint32(b[length-slotTail:]) {
		return Slot{}, ErrCorrupt
	}
	s := Slot{Number: binary.BigEndian.Uint64(b[8:]), Version: binary.BigEndian.Uint16(b[4:])}
	if s.Version > f.Version {
		return Slot{}, ErrNewer
	}
	s.Content = bytes.Clone(b[slotHead : length-slotTail])
	return s, nil
}

// newest takes the newer of the valid slots. Only a slot that was torn, and so has a
// wrong checksum, may be passed over for the one before: what a whole slot says was on
// disk, and somebody may rely on it.
func (f Format) newest(file []byte) (newest Slot, err error) {
	isFound := false
	for at := 0; at < min(2*SlotSize, len(file)); at += SlotSize {
		s, err := f.Parse(file[at:min(at+SlotSize, len(file))])
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return Slot{}, err
		}
		if err == nil && (!isFound || s.Number > newest.Number) {
			isFound, newest = true, s
		}
	}
	if !isFound {
		return Slot{}, ErrCorrupt
	}
	return newest, nil
}

// OpenSlots reads the newest slot of a file. Without a file it gives an error that is
// os.ErrNotExist, and slots whose first Write makes it. It changes nothing on disk.
func OpenSlots(path string, format Format) (*Slots, Slot, error) {
	s := &Slots{format: format, path: path}
	content, err := ReadFile(path)
	if err != nil {
		return s, Slot{}, err
	}
	newest, err := format.newest(content)
	if err != nil {
		return nil, Slot{}, err
	}
	s.number = newest.Number
	if s.file, err = openFile(path, os.O_RDWR); err != nil {
		return nil, Slot{}, err
	}
	return s, newest, nil
}

// PeekSlot reads the newest slot of a file, whoever's it is and whoever writes it meanwhile: for
// people who ask before a start, never to start with.
func PeekSlot(path string, format Format) (Slot, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a FIFO must not hang
	if err != nil {
		return Slot{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, 2*SlotSize))
	if err != nil {
		return Slot{}, err
	}
	return format.newest(content)
}

// Write puts content into the slot that does not hold the present one and syncs it.
// After an error the slot's content is unknown, the other one still holds what was there
// before, and the next write tries again.
func (s *Slots) Write(content []byte) error {
	slot, at := s.format.Append(s.number+1, content), int64((s.number+1)%2*SlotSize)
	if err := s.reopen(); err != nil {
		return err
	}
	if s.file == nil {
		return s.create(slot, at)
	}
	err := s.file.writeAt(slot, at)
	if err == nil {
		err = s.file.datasync()
	}
	if err != nil {
		// After a failed sync the kernel may call the page clean though it is
		// not on disk: a fresh descriptor must write it again.
		s.file.Close()
		s.file = nil
		return err
	}
	s.number++
	return nil
}

// reopen gives the file a descriptor again; none, and no error, if it is still to be made.
func (s *Slots) reopen() (err error) {
	if s.file != nil {
		return nil
	}
	s.file, err = openFile(s.path, os.O_RDWR)
	if s.number == 0 && errors.Is(err, os.ErrNotExist) {
		s.file, err = nil, nil
	}
	return err
}

// create makes the file. It gets its name only when it is whole, and the directory is
// synced once, here.
func (s *Slots) create(slot []byte, at int64) error {
	fresh := s.path + ".new"
	f, err := openFile(fresh, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	err = f.writeAt(slot, at)
	if err := errors.Join(err, f.truncate(2*SlotSize), f.sync()); err != nil {
		f.Close()
		return errors.Join(err, Remove(fresh))
	}
	if err := errors.Join(rename(fresh, s.path), SyncDir(filepath.Dir(s.path))); err != nil {
		f.Close()
		return err
	}
	s.file = f
	s.number++
	return nil
}

// Close closes the file, which is not changed any more.
func (s *Slots) Close() {
	if s.file != nil {
		s.file.Close()
	}
}
