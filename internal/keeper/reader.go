package keeper

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/reader"
)

// The keeper keeps the reader, since the agent itself may be unable to start anything. The reader has no part in what the
// keeper's loop does: it is started with the keeper, and ends with the agent.

// sayReader tells how the reader is. It is called on the goroutine that keeps it, and does not wait.
func (k *keeper) sayReader(s reader.State) { k.out.add(report{Say: sayReader, Reader: &s}) }

// endReader has it end, in the background, and gives its port up: the next agent wants that.
func (k *keeper) endReader() {
	if k.reader != nil {
		k.reader.End()
	}
}

// awaitReader has it end, and waits for that a moment: those who follow the events get the last ones.
func (k *keeper) awaitReader() {
	if k.endReader(); k.reader == nil {
		return
	}
	select {
	case <-k.reader.Over():
	case <-time.After(goodbye):
	}
}

// Reader says how the reader is, if one is wanted.
func (c *Client) Reader() reader.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reader
}
