package sidecar

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// seals keep a file in memory as it is: a reader can map it, and nobody takes that from under it.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// SealedFile holds a text that nobody changes any more.
func SealedFile(name string, text []byte) (*os.File, error) {
	f, err := memoryFile(name, text, unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal %s: %w", name, err)
	}
	return f, nil
}

// MemoryFile holds a text in memory alone.
func MemoryFile(name string, text []byte) (*os.File, error) { return memoryFile(name, text, 0) }

func memoryFile(name string, text []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
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

// MapSealed gives the text of a sealed file; Unmap gives it back. Of anything else that has a descriptor
// nothing is read: it could change meanwhile, or have its reader wait.
func MapSealed(fd int) (text []byte, err error) {
	if has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || has&seals != seals {
		return nil, errors.New("it is no sealed file")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("look at file: %w", err)
	}
	switch {
	case stat.Size > MaxMessage:
		return nil, fmt.Errorf("it has %d bytes, and may have %d", stat.Size, MaxMessage)
	case stat.Size == 0:
		return []byte{}, nil
	}
	if text, err = unix.Mmap(fd, 0, int(stat.Size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map file: %w", err)
	}
	return text, nil
}

// Unmap gives the text of MapSealed back, which must not be read any more.
func Unmap(text []byte) {
	if len(text) > 0 {
		_ = unix.Munmap(text)
	}
}
