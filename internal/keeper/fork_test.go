package keeper

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// A fork has one of the runtime's processors until its child has executed, which takes long on a busy host, and here does not end.
// The keeper's loop goes on meanwhile.
func TestAForkHoldsUpNoLoop(t *testing.T) {
	r := newRig(t)
	program := r.Path("program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // and with it the lease
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip(err) // of a file system that has no leases
	}
	s := r.config(scripts{hooks.LoseLeadership: note})
	s.Hooks.Commands[hooks.BecomeLeader] = hooks.Command{Argv: []string{program}}
	d := r.desk(s)
	d.cfg.Environ = append(d.cfg.Environ, "GOGC=off") // a collection would wait for the fork, too
	d.recover()
	d.run()
	keeper := d.Status().Process
	d.become(7)
	r.Until("the kernel to ask for the file", func() bool {
		is, err := unix.FcntlInt(file.Fd(), unix.F_GETLEASE, 0)
		return err != nil || is != unix.F_WRLCK
	})
	d.lose(7)
	d.wants(hooks.BecomeLeader, 7, false)
	d.wants(hooks.LoseLeadership, 7, true)
	if d.Status().Process != keeper {
		t.Error("the keeper stood still, and another has taken its place")
	}
}
