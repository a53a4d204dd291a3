package cli

import (
	"bytes"
	"os"

	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// ownName is this process's name in ps and top, a file of proc(5). It is the main
// thread's, whichever thread writes it.
const ownName = "/proc/self/comm"

// nameProcess names a process that was started as /proc/self/exe, as keepers, holders and
// the child of process 1 are: the kernel calls it "exe". The parts of an agent have names
// of their own, so that pkill of the agent leaves them to do their work. That the name
// cannot be changed is no reason for anything.
func nameProcess(args []string) {
	if name, err := os.ReadFile(ownName); err != nil || !bytes.Equal(name, []byte("exe\n")) {
		return
	}
	name := program
	if part(args) != nil {
		name = "bully-" + args[1]
	}
	_ = os.WriteFile(ownName, []byte(name), 0)
}

// processes are those of an agent besides its own, and the one that vip add leaves, by the
// word that they are started with.
var processes = map[string]func() int{keeper.Word: runKeeper, holder.Word: holder.Main, reader.Word: reader.Main, vip.Word: runAnnouncer}

// part is what is to be run instead of a command; nil: a command is.
func part(args []string) func() int {
	if len(args) < 2 {
		return nil
	}
	return processes[args[1]]
}
