package realtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Refused is why the kernel does not give real time.
type Refused struct {
	Why  string // a clause
	Hint string // how to mend it
}

func (r *Refused) Error() string { return r.Why }

// refused looks for the reason behind an EPERM, of which there are several.
func refused() *Refused {
	if !mayHaveIt() {
		return &Refused{"neither CAP_SYS_NICE nor RLIMIT_RTPRIO gives the right to it",
			"LimitRTPRIO=1 in the unit, --ulimit rtprio=1 for a container"}
	}
	text, _ := os.ReadFile("/proc/self/cgroup") // unread: the last reason is the only one left
	if group, file := cpuGroup(string(text)); file != "" {
		if runtime, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(runtime)) == "0" {
			return &Refused{fmt.Sprintf("the control group %s has no share of real time", group),
				"write one to its cpu.rt_runtime_us, or move the agent to the root group"}
		}
	}
	return &Refused{"the kernel refuses it in spite of the right: in a user namespace, by a control group or a filter of system calls",
		"RestrictRealtime=no in the unit; a container outside of user namespaces"}
}

// mayHaveIt reports whether this process has either right.
func mayHaveIt() bool {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit) == nil && limit.Cur >= Priority {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}

// cpuGroup finds the control group that may keep real time to itself, in what
// /proc/self/cgroup says, and the file with its share. Only those of the first
// version have one; "" if there is none.
func cpuGroup(text string) (group, file string) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			if controller == "cpu" {
				return f[2], filepath.Join("/sys/fs/cgroup", f[1], f[2], "cpu.rt_runtime_us")
			}
		}
	}
	return "", ""
}
