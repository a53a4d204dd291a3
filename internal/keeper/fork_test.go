package keeper

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// A fork has one of the runtime's processors until its child has executed, which takes long on a busy host, and here does not end. The
// keeper's loop goes on meanwhile, also beside several of them, until the runtime collects: that waits for each fork.
func TestForksHoldUpNoLoop(t *testing.T) {
	r := newRig(t)
	var leased []*os.File
	defer func() {
		for _, file := range leased {
			file.Close() // and with it the lease
		}
	}()
	hangs := func(name string) hooks.Command {
		leased = append(leased, r.lease(name))
		return hooks.Command{Argv: []string{r.Path(name)}}
	}
	s := r.config(scripts{hooks.LoseLeadership: note})
	s.Hooks.Commands[hooks.BecomeLeader], s.Hooks.Commands[hooks.MemberChange] = hangs("become"), hangs("notice")
	for i := range 3 {
		name := fmt.Sprint("check", i)
		s.Checks = append(s.Checks, hooks.Check{Name: name, Command: hangs(name), Interval: 20 * time.Millisecond, Timeout: patience, Rise: 1, Fall: 1})
	}
	d := r.desk(s)
	d.cfg.Environ = append(d.cfg.Environ, "GOGC=off") // else one comes after two minutes, or when the heap has grown
	d.recover()
	d.run()
	keeper := d.Status().Process
	d.Start(d.event(hooks.MemberChange, 0), time.Time{})
	d.become(7)
	for _, file := range leased {
		r.Until("the start of "+file.Name(), func() bool {
			is, err := unix.FcntlInt(file.Fd(), unix.F_GETLEASE, 0)
			return err != nil || is != unix.F_WRLCK
		})
	}
	d.lose(7)
	d.wants(hooks.BecomeLeader, 7, false)
	d.wants(hooks.LoseLeadership, 7, true)
	if d.Status().Process != keeper {
		t.Error("the keeper stood still, and another has taken its place")
	}
}

// lease makes a program whose execution waits until its file is closed.
func (r *rig) lease(name string) *os.File {
	r.t.Helper()
	if err := os.WriteFile(r.Path(name), []byte("#!/bin/sh\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	file, err := os.Open(r.Path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Until("nobody else to have it open", func() bool { // as what other tests fork has, until it executes
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		file.Close()
		r.t.Skip("a file system without leases: ", err)
	case err != nil:
		file.Close()
		r.t.Fatal(err)
	}
	return file
}
