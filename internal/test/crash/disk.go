package crash

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// disk is what a directory looks like, and what of that a loss of power may take away.
type disk struct {
	names   map[string]*inode // as a process sees them
	lasting map[string]*inode // as they were when they were synced last
	held    map[uint64]*inode // open files, by handle
	pending []map[string]*inode
	touched *inode // by the last operation
}

// inode is a file without a name.
type inode struct {
	now     []byte
	lasting []byte
	pending []durable.Op // writes that were not synced, in order
}

func (n *inode) apply(op durable.Op) {
	switch size := int(op.At); op.Kind {
	case durable.OpTruncate:
		n.now = resize(n.now, size)
	case durable.OpWrite:
		n.now = put(n.now, size, op.Content)
	}
	n.pending = append(n.pending, op)
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return bytes.Clone(b[:size])
	}
	return append(bytes.Clone(b), make([]byte, size-len(b))...)
}

func put(b []byte, at int, content []byte) []byte {
	b = resize(b, max(len(b), at+len(content)))
	copy(b[at:], content)
	return b
}

func newDisk(files map[string][]byte) *disk {
	d := &disk{names: map[string]*inode{}, held: map[uint64]*inode{}}
	for name, content := range files {
		d.names[name] = &inode{now: content, lasting: content}
	}
	d.lasting = maps.Clone(d.names)
	return d
}

// step makes one operation.
func (d *disk) step(op durable.Op) {
	name, to := filepath.Base(op.Path), filepath.Base(op.To)
	d.touched = nil
	switch op.Kind {
	case durable.OpOpen:
		d.held[op.Handle] = d.names[name]
	case durable.OpCreate:
		if d.names[name] == nil {
			d.names[name] = &inode{}
			d.renamed()
		} else {
			d.names[name].apply(durable.Op{Kind: durable.OpTruncate})
		}
		d.held[op.Handle] = d.names[name]
	case durable.OpWrite, durable.OpTruncate:
		d.touched = d.held[op.Handle]
		d.touched.apply(op)
	case durable.OpSync:
		if n := d.held[op.Handle]; n != nil {
			n.lasting, n.pending = n.now, nil
		}
	case durable.OpRename:
		d.touched = d.names[name]
		d.names[to] = d.touched
		delete(d.names, name)
		d.renamed()
	case durable.OpLink:
		d.touched = d.names[name]
		d.names[to] = d.touched
		d.renamed()
	case durable.OpUnlink:
		delete(d.names, name)
		d.renamed()
	case durable.OpNameSync:
		d.lasting, d.pending = maps.Clone(d.names), nil
	}
}

func (d *disk) renamed() { d.pending = append(d.pending, maps.Clone(d.names)) }

// left is what a crash can leave now, and calls found for each: the names of any moment
// since they were synced, and under them the content as it was synced, as it is, as long
// as it is but of zeros, or with the last write torn at any byte or sector.
func (d *disk) left(found func(map[string][]byte)) {
	for _, names := range append([]map[string]*inode{d.lasting}, d.pending...) {
		for _, data := range []func(*inode) []byte{
			func(n *inode) []byte { return n.now },
			func(n *inode) []byte { return n.lasting },
			func(n *inode) []byte {
				if len(n.pending) == 0 {
					return n.now
				}
				return resize(n.lasting, len(n.now))
			},
		} {
			found(content(names, data))
		}
	}
	if n := d.touched; n != nil && len(n.pending) > 0 { // the others were torn in their turn
		n.torn(func(spoiled []byte) {
			found(content(d.names, func(other *inode) []byte {
				if other == n {
					return spoiled
				}
				return other.now
			}))
		})
	}
}

func content(names map[string]*inode, data func(*inode) []byte) map[string][]byte {
	files := make(map[string][]byte, len(names))
	for name, n := range names {
		files[name] = data(n)
	}
	return files
}

const (
	sector = 512

	// bytewise is up to what length a write is torn at each byte and each bit: what is longer is
	// torn at sectors. Arbitrary: records are shorter.
	bytewise = 1 << 10
)

// eachBit has torn turn all bits of a byte, one after the other (make schedules). Otherwise it turns one of them: the first bit of
// the first byte, the second of the second.
var eachBit = os.Getenv("BULLY_SIM") == "long"

// torn gives the file with its last write torn: a beginning of each length is there, an end
// from each sector on, each sector alone, and the whole with a bit the other way in each byte.
func (n *inode) torn(found func([]byte)) {
	last := len(n.pending) - 1
	for last >= 0 && n.pending[last].Kind != durable.OpWrite {
		last--
	}
	if last < 0 {
		return
	}
	op := n.pending[last]
	was := n.lasting
	length := len(op.Content)
	for i := range length {
		if length > bytewise {
			break
		}
		found(put(was, int(op.At), op.Content[:i]))
		for bit := range 8 {
			if !eachBit && bit != i%8 {
				continue
			}
			flipped := bytes.Clone(n.now)
			flipped[int(op.At)+i] ^= 1 << bit
			found(flipped)
		}
	}
	for i := 0; i < length; i += sector {
		found(put(was, int(op.At)+i, op.Content[i:]))
		found(put(was, int(op.At)+i, op.Content[i:min(i+sector, length)]))
	}
}
