package keeper

import (
	"fmt"
	"os"

	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Word is the program's first argument when it is to be a keeper.
const Word = "keeper"

// The descriptors that a keeper inherits.
const (
	agentFD = sidecar.OutFD + 1 + iota // the agent's handle
	doorFD                             // and on: what a reader gets, where one is wanted
)

// Main is the whole life of a keeper process; its result is the exit code.
func Main(read Reader) int {
	realtime.Inherit()
	k, err := inherit(read)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: keeper: "+err.Error())
		return 2
	}
	warm()
	k.run()
	return 0
}

// warm has Go's library find out what this kernel's pidfds can do. It starts a process for that, once, which would else be before
// the first hook: when a leader has just died.
func warm() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
}

// inherit takes what the agent has left for this process.
func inherit(read Reader) (*keeper, error) {
	conn, err := sidecar.InheritConn(agentFD)
	if err != nil {
		return nil, err
	}
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	k := newKeeper(conn, watchAgent(), timer, read)
	if door := reader.Inherit(doorFD); door != nil {
		k.reader = door.Keep(nil, k.sayReader, k.out.named("reader"))
	}
	return k, nil
}
