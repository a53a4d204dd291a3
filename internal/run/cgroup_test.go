package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/traces"
)

func TestWhereACgroupIs(t *testing.T) {
	const (
		v1      = "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		unified = "25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		spaced  = "25 20 0:22 / /mnt/c\\040g rw - cgroup2 none rw\n"
		partial = "25 20 0:22 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	)
	for _, tt := range []struct{ mounts, groups, want string }{
		{v1 + unified, "0::/system.slice/a.service\n", "/sys/fs/cgroup/system.slice/a.service"},
		{unified, "2:cpu:/x\n0::/\n", "/sys/fs/cgroup"},
		{spaced, "0::/a b\n", "/mnt/c g/a b"},
		{partial, "0::/docker/ab/c\n", "/sys/fs/cgroup/c"},
		{partial, "0::/docker/ab\n", "/sys/fs/cgroup"},
		{partial, "0::/docker/abc\n", ""},
		{unified, "0::/../other\n", ""},
		{v1, "0::/\n", ""},
		{unified, "2:cpu:/x\n", ""},
		{"", "", ""},
	} {
		if got := locate(tt.mounts, tt.groups); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.groups, tt.mounts, got, tt.want)
		}
	}
}

// The kernel's promise on which a holder with a cgroup relies: one write ends all
// that was started inside, in whatever session.
func TestCgroupKillEndsSessions(t *testing.T) {
	r := traces.New(t)
	r.Mark = "CGROUP_TEST=" + r.Name
	cg := NewCgroup("", "bully-test-"+filepath.Base(filepath.Dir(r.Name)))
	if cg.Dir == "" {
		t.Skip("no cgroup can be made here")
	}
	cmd := exec.Command("/bin/sh", "-c", "cd "+r.Name+"; trap '' TERM; setsid sh -c 'echo x >up; sleep 1000' & wait")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), r.Mark}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cg.fd.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.UntilFile("up")
	if !cg.IsPopulated() {
		t.Error("a cgroup with processes is not populated")
	}
	cg.Kill()
	_ = cmd.Wait()
	r.Until("the death of all", func() bool { return !cg.IsPopulated() && len(r.Living()) == 0 })
	if err := cg.Remove(); err != nil {
		t.Error(err)
	}
	if cg.IsPopulated() || cg.Remove() != nil {
		t.Error("a cgroup that is gone is not empty")
	}
}
