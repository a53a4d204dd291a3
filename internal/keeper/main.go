package keeper

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sidecar"

	"github.com/bully-agent/bully-agent/internal/realtime"
)

// Word is the program's first argument when it is to be a keeper.
const Word = "keeper"

// The descriptors that a keeper inherits.
const (
	socketFD = 3 + iota
	agentFD  // the agent's pidfd, where there are such
)

// Main is the whole life of a keeper process; its result is the exit code.
func Main(read Reader) int {
	realtime.Inherit()
	k, err := inherit(read)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: keeper: "+err.Error())
		return 2
	}
	k.run()
	return 0
}

// inherit takes what the agent has left for this process.
func inherit(read Reader) (*keeper, error) {
	if err := sidecar.CheckSocket(socketFD); err != nil {
		return nil, err
	}
	for fd := socketFD; fd <= agentFD; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := unix.SetNonblock(socketFD, true); err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	c, err := newConn(os.NewFile(socketFD, "agent"))
	if err != nil {
		return nil, err
	}
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	dropSignals()
	return newKeeper(c, watchAgent(), timer, read), nil
}

// dropSignals catches what would end or stop a keeper, since it has to outlive its agent.
// Ignored signals would be ignored by hooks, too, and are if our caller ignores them, as
// nohup does. Go tells that of HUP and INT alone.
func dropSignals() {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(dropped, sig)
		}
	}
}
