package sidecar

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// This program is also the sidecar that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sidecar" {
		if err := Inherit(SocketFD); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("inherited")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Other processes of its user read nothing of a sidecar: /proc shows that as root's.
func TestASidecarIsHidden(t *testing.T) {
	ours, theirs, err := SocketPair("test")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe", "sidecar")
	cmd.ExtraFiles = []*os.File{theirs}
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stdin.Close(); _ = cmd.Wait() }()
	said := make([]byte, 100)
	if n, err := stdout.Read(said); err != nil || string(said[:n]) != "inherited\n" {
		t.Fatalf("%q, %v", said[:n], err)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		t.Errorf("its environment is that of user %d to read", owner)
	}
}
