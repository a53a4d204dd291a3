package cli

import (
	"bytes"
	"os"

	"github.com/bully-agent/bully-agent/internal/guard"
)

// ownName is this process's name in ps and top, a file of proc(5). It is the main
// thread's, whichever thread writes it.
const ownName = "/proc/self/comm"

// nameProcess names a process that was started as /proc/self/exe, as guards and the
// child of process 1 are: the kernel calls it "exe". A guard has a name of its own,
// so that pkill of the agent leaves it to do its work. That the name cannot be
// changed is no reason for anything.
func nameProcess(args []string) {
	if name, err := os.ReadFile(ownName); err != nil || !bytes.Equal(name, []byte("exe\n")) {
		return
	}
	name := program
	if isGuard(args) {
		name = "bully-guard"
	}
	_ = os.WriteFile(ownName, []byte(name), 0)
}

func isGuard(args []string) bool { return len(args) > 1 && args[1] == guard.Word }
