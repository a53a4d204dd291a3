package run

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

const patience = traces.Patience

// A daemon calls setsid after its fork, and the hook may have ended by then: it goes on all the same.
func TestADaemonHasTimeToLeaveItsHook(t *testing.T) {
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	d := traces.New(t)
	p, err := Start([]string{"/bin/sh", "-c", "(sleep 0.1; exec setsid sh -c 'echo $$ >" + d.Path("up") + "; exec sleep 1000') >/dev/null 2>&1 &"}, os.Environ(), nil, Silent())
	if err != nil {
		t.Fatal(err)
	}
	p.parting = patience
	end := p.Conclude(NewLeash(ending.Limit{Timeout: patience, Grace: patience}, time.Now))
	p.Drain()
	d.UntilFile("up")
	pid := d.PID("up")
	defer unix.Kill(pid, unix.SIGKILL)
	if end.Err != nil || len(p.Ended) > 0 || len(Living(pid)) != 1 {
		t.Errorf("end %+v, ended with it %q, alive %v", end, p.Ended, Living(pid))
	}
}

func TestFileWithoutInterpreterSaysSo(t *testing.T) {
	file := traces.New(t).Path("hook")
	if err := os.WriteFile(file, []byte("\x00\x01 not a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := Start([]string{file}, nil, nil, Silent())
	if err == nil {
		p.bury()
		t.Fatal("started")
	}
	if want := file + " cannot be started: exec format error: no #! line, or built for another processor"; err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// A mode that allows it is not all: noexec, SELinux and AppArmor say the same to a program.
func TestForbiddenProgramSaysByWhat(t *testing.T) {
	file := traces.New(t).Path("hook")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start([]string{file}, nil, nil, Silent())
	if err == nil {
		p.bury()
		t.Fatal("started")
	}
	if want := file + " cannot be started: permission denied: its mode, a file system that is mounted noexec, SELinux or AppArmor"; err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// On a host that starves what is ordinary, the epoch may be over before the command that was
// started runs its first line. It needs no grace for its end then, whatever it does of TERM.
func TestACommandThatBeginsTooLateIsKilledAtOnce(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signal.Ignore(unix.SIGTERM) // which children inherit
	defer func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM) // Reset alone does not end that
		signal.Stop(c)
	}()
	errOver := errors.New("its epoch has ended")
	l := NewLeash(ending.Limit{Timeout: patience, Grace: patience}, time.Now)
	l.Pull(errOver)
	p, err := Start([]string{"/bin/sleep", "1000"}, nil, nil, Silent())
	if err != nil {
		t.Fatal(err)
	}
	end := p.Conclude(l)
	p.Drain()
	if !errors.Is(end.Err, errOver) || end.Took > patience/2 {
		t.Errorf("it ended after %v: %v", end.Took, end.Err)
	}
}
