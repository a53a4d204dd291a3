package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// What the kernel knows of a process group. A hook's group id is the process id
// of its first process. The kernel does not give a number away again while any
// process, even a zombie, has it as its process or group id: so signalling the
// group is safe exactly until the first process is reaped, and after that for as
// long as a member is known to live.

// signalGroup sends sig to all members. A group that is gone is not an error.
func signalGroup(group int, sig unix.Signal) error {
	if err := unix.Kill(-group, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal group %d: %w", group, err)
	}
	return nil
}

// living lists the members of a group that still run; zombies do not. The list is
// a glance, not a snapshot: who forks meanwhile may be missed, so it decides when
// to stop waiting, and a KILL to the whole group follows it in any case.
//
// Where /proc cannot be read nobody seems to live: stragglers then get the KILL
// without the TERM before it.
func living(group int) []int {
	var pids []int
	for _, pid := range Processes() {
		// getpgid costs a tenth of reading stat, and nearly all are of other groups.
		if got, err := unix.Getpgid(pid); err != nil || got != group {
			continue
		}
		if s, err := readStat(pid); err == nil && s.group == group && s.runs() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Processes lists all that this process can see.
func Processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// procStat is the part of /proc/PID/stat that tells one process from another.
type procStat struct {
	state byte
	group int
	start uint64 // clock ticks from boot to the process's start
}

func (s procStat) runs() bool { return s.state != 'Z' && s.state != 'X' }

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields 3 (state), 5 (pgrp) and 22 (starttime). The
// command in field 2 may hold anything, a closing bracket too, so fields are
// counted from the last one.
func parseStat(text []byte) (procStat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return procStat{}, errors.New("parse /proc/PID/stat: too few fields")
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return procStat{}, fmt.Errorf("parse process group: %w", err)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("parse start time: %w", err)
	}
	return procStat{state: fields[0][0], group: group, start: start}, nil
}

// hasEnv reports whether a process was started with all of the variables, given
// as NAME=value. Only root and the process's own user can tell.
func hasEnv(pid int, vars ...string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	text = append([]byte{0}, text...)
	for _, v := range vars {
		if !bytes.Contains(text, append(append([]byte{0}, v...), 0)) {
			return false
		}
	}
	return true
}

// BootID changes with every boot; empty when unknown. Start times are counted
// from boot, so they identify a process only together with it.
func BootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text))
}
