package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

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

// names says for logs which processes these are: number and name.
func names(pids []int) (out []string) {
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // none: it has just ended
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%d %s", pid, lastLine(name)), " "))
	}
	return out
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
	space uint64 // bytes of its address space; 0: it has none any more, or is the kernel's
	ready bool   // execve has laid out its memory
	env   uint64 // bytes of its environment, once ready
}

func (s procStat) runs() bool { return s.state != 'Z' && s.state != 'X' }

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields 3 (state), 5 (pgrp), 22 (starttime), 23 (vsize), 26
// (startcode), which execve sets last, and the difference of 51 (env_end) and 50
// (env_start). The command in field 2 may hold anything, a closing bracket too, so fields
// are counted from the last one.
func parseStat(text []byte) (procStat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 49 || len(fields[0]) != 1 {
		return procStat{}, errors.New("parse /proc/PID/stat: too few fields")
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return procStat{}, fmt.Errorf("parse process group: %w", err)
	}
	var numbers [5]uint64
	for i, field := range []int{22, 23, 26, 50, 51} {
		if numbers[i], err = strconv.ParseUint(string(fields[field-3]), 10, 64); err != nil {
			return procStat{}, fmt.Errorf("parse field %d: %w", field, err)
		}
	}
	return procStat{state: fields[0][0], group: group, start: numbers[0], space: numbers[1], ready: numbers[2] != 0, env: numbers[4] - numbers[3]}, nil
}

// longestExec bounds the time between giving up the old memory and laying out the new: both
// are a few page faults away from each other, on a disk that may be slow.
const longestExec = time.Second

// HasEnv reports whether a process was started with all of the variables, given
// as NAME=value. Only root and the process's own user can tell.
func HasEnv(pid int, vars ...string) bool {
	text, err := environOf(pid)
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

// environOf reads the whole environment of a process. In the middle of an execve there is
// none, and what was begun to be read of the old one ends early: it is read again until it
// is as long as the process says. The bound is for one that changes it all the time.
func environOf(pid int) ([]byte, error) {
	for until := time.Now().Add(longestExec); ; time.Sleep(longestExec / 10000) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return nil, err
		}
		s, err := readStat(pid)
		if err != nil {
			return nil, err
		}
		isWhole := s.ready && s.env == uint64(len(text))
		if isWhole || s.space == 0 || !s.runs() || time.Now().After(until) {
			return text, nil
		}
	}
}

// BootID changes with every boot; empty when unknown. Start times are counted
// from boot, so they identify a process only together with it.
func BootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text))
}
