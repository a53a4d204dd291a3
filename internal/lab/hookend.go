package lab

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A lose hook that is killed says nothing, and is over all the same: the kernel closes what it had open. So each lose
// hook holds its node's vigil open, a FIFO of its own, whose other end sees that.

// vigil watches the lose hooks of one node.
type vigil struct {
	path  string
	ended chan struct{}
	once  sync.Once
	over  chan struct{} // closed when nobody watches any more
}

func vigilPath(fifo, node string) string { return fifo + "." + node }

// watchEnds has e hear of the end of each lose hook of node, however it ends, until e is closed.
func (e *ear) watchEnds(node string) error {
	v := &vigil{path: vigilPath(e.path, node), ended: make(chan struct{}), over: make(chan struct{})}
	if err := unix.Mkfifo(v.path, 0o600); err != nil {
		return fmt.Errorf("make fifo %s: %w", v.path, err)
	}
	e.vigils = append(e.vigils, v)
	go func() {
		defer close(v.over)
		for {
			epochs, err := v.wait()
			if err != nil {
				return
			}
			if len(epochs) > 0 {
				e.tellOver(node, epochs[len(epochs)-1])
			}
		}
	}()
	return nil
}

// wait returns when a hook has begun and ended, with the epochs that it and others meanwhile wrote; or an error when
// that is of no interest any more.
func (v *vigil) wait() ([]string, error) {
	end, err := os.Open(v.path) // waits for a hook
	if err != nil {
		return nil, err
	}
	defer end.Close()
	text, err := io.ReadAll(end) // until no hook has it open
	select {
	case <-v.ended:
		return nil, os.ErrClosed
	default:
		return strings.Fields(string(text)), err
	}
}

// close ends the watch.
func (v *vigil) close() {
	v.once.Do(func() { close(v.ended) })
	for {
		// A writer comes and goes, so that a wait that has begun ends.
		if f, err := os.OpenFile(v.path, os.O_RDWR, 0); err == nil {
			f.Close()
		}
		select {
		case <-v.over:
			return
		default:
		}
	}
}
