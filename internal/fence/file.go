package fence

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The file has two copies of one line of text, each in a page of its own that
// NUL bytes fill up:
//
//	bully-agent fence 1 epoch 42 owner 0b6c… crc32c 89abcdef
//
// Owner - is no owner. The checksum is that of all before " crc32c". The copies
// are written one after the other, each synced before the next: so power loss
// tears one at most, and a copy that rots later costs nothing. The higher of the
// valid copies counts; an epoch has been accepted only when both hold it.
const (
	copySize = 4096
	fileSize = 2 * copySize

	lineHead    = "bully-agent fence "
	lineVersion = "1"
	noOwner     = "-"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errForeign = errors.New("not a fence file, or a damaged one; nothing was written to it: " +
		"expected one that a check began; to remove a damaged one is to forget its epochs")
	errNewer = errors.New("written by a newer version of bully-agent")
)

// write is one step of a change: bytes to be written and synced before the next.
type write struct {
	at   int64
	text []byte
}

// plan reads a file's content and says how e, which is valid, gets into it. The copy
// that is not relied on is written first.
func plan(content []byte, e Epoch) (highest Epoch, writes []write, err error) {
	if len(content) != fileSize {
		return Epoch{}, nil, errForeign
	}
	first, errFirst := decode(content[:copySize])
	second, errSecond := decode(content[copySize:])
	relied := 0
	switch {
	case errors.Is(errFirst, errNewer) || errors.Is(errSecond, errNewer):
		return Epoch{}, nil, errNewer
	case errFirst != nil && errSecond != nil:
		return Epoch{}, nil, errForeign
	case errFirst != nil || errSecond == nil && second.Counter > first.Counter:
		relied = 1
	case errSecond == nil && second.Counter == first.Counter && second != first:
		return Epoch{}, nil, errForeign // never written: accepted twice is what this file prevents
	}
	highest = [2]Epoch{first, second}[relied]
	text := encode(e)
	return highest, []write{{int64((1 - relied) * copySize), text}, {int64(relied * copySize), text}}, nil
}

// fresh is the whole content of a file that has seen e alone.
func fresh(e Epoch) []byte { return bytes.Repeat(encode(e), 2) }

func encode(e Epoch) []byte {
	owner := e.Owner
	if owner == "" {
		owner = noOwner
	}
	line := fmt.Sprintf("%s%s epoch %d owner %s", lineHead, lineVersion, e.Counter, owner)
	line = fmt.Sprintf("%s crc32c %08x\n", line, checksum(line))
	return append([]byte(line), make([]byte, copySize-len(line))...)
}

func checksum(line string) uint32 { return crc32.Checksum([]byte(line), castagnoli) }

// decode takes only what encode writes, byte for byte.
func decode(page []byte) (Epoch, error) {
	line, _, _ := bytes.Cut(page, []byte("\n"))
	body, sum, _ := strings.Cut(string(line), " crc32c ")
	if sum != fmt.Sprintf("%08x", checksum(body)) || !strings.HasPrefix(body, lineHead) {
		return Epoch{}, errForeign
	}
	words := strings.Fields(strings.TrimPrefix(body, lineHead))
	if len(words) == 0 || words[0] != lineVersion {
		return Epoch{}, errNewer
	}
	if len(words) != 5 {
		return Epoch{}, errForeign
	}
	counter, err := strconv.ParseUint(words[2], 10, 64)
	e := Epoch{Counter: counter, Owner: words[4]}
	if e.Owner == noOwner {
		e.Owner = ""
	}
	if err != nil || e.validate() != nil || !bytes.Equal(page, encode(e)) {
		return Epoch{}, errForeign
	}
	return e, nil
}
