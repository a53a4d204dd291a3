package run

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

// What the kernel knows of processes and their groups. The number of a group is the
// process id of its first process. The kernel does not give a number away again while any
// process, even a zombie, has it as its process or group id: so signalling the group is
// safe exactly until the first process is reaped, and after that for as long as a member
// is known to live.

// Signal sends sig to all members. A group that is gone is not an error.
func Signal(group int, sig unix.Signal) error {
	if err := unix.Kill(-group, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal group %d: %w", group, err)
	}
	return nil
}

// Living lists the members of a group that still run; zombies do not. The list is
// a glance, not a snapshot: who forks meanwhile may be missed, so it decides when
// to stop waiting, and a KILL to the whole group follows it in any case.
//
// Where /proc cannot be read nobody seems to live: stragglers then get the KILL
// without the TERM before it.
func Living(group int) []int {
	var pids []int
	for _, pid := range Processes() {
		// getpgid costs a tenth of reading stat, and nearly all are of other groups.
		if got, err := unix.Getpgid(pid); err != nil || got != group {
			continue
		}
		if s, err := ReadStat(pid); err == nil && s.Group == group && s.Runs() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Names says for logs which processes these are: number and name.
func Names(pids []int) (out []string) {
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // none: it has just ended
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%d %s", pid, LastLine(name)), " "))
	}
	return out
}

// Stuck says for people which of these processes cannot be ended. 0 is one whose number
// is not known.
func Stuck(pids []int) string {
	for _, pid := range pids {
		if s, _ := ReadStat(pid); s.State == 'D' {
			return fmt.Sprintf("process %d cannot be ended, it waits for its disk", pid)
		}
	}
	for _, pid := range pids {
		if s, err := ReadStat(pid); err == nil && s.Runs() {
			return fmt.Sprintf("process %d does not end, though it has had KILL", pid)
		}
	}
	return "a process does not end, though it has had KILL"
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

// Stat is the part of /proc/PID/stat that tells one process from another.
type Stat struct {
	State byte   // 'R', 'S', 'D', 'Z' …
	Group int    // its process group
	Start uint64 // clock ticks from boot to the process's start
	space uint64 // bytes of its address space; 0: it has none any more, or is the kernel's
	ready bool   // execve has laid out its memory
	env   uint64 // bytes of its environment, once ready
}

// Runs reports whether it is more than a zombie.
func (s Stat) Runs() bool { return s.State != 'Z' && s.State != 'X' }

// ReadStat reads that of a process that lives, or is not reaped yet.
func ReadStat(pid int) (Stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields 3 (state), 5 (pgrp), 22 (starttime), 23 (vsize), 26
// (startcode), which execve sets last, and the difference of 51 (env_end) and 50
// (env_start). The command in field 2 may hold anything, a closing bracket too, so fields
// are counted from the last one.
func parseStat(text []byte) (Stat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 49 || len(fields[0]) != 1 {
		return Stat{}, errors.New("parse /proc/PID/stat: too few fields")
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return Stat{}, fmt.Errorf("parse process group: %w", err)
	}
	var numbers [5]uint64
	for i, field := range []int{22, 23, 26, 50, 51} {
		if numbers[i], err = strconv.ParseUint(string(fields[field-3]), 10, 64); err != nil {
			return Stat{}, fmt.Errorf("parse field %d: %w", field, err)
		}
	}
	return Stat{State: fields[0][0], Group: group, Start: numbers[0], space: numbers[1], ready: numbers[2] != 0, env: numbers[4] - numbers[3]}, nil
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
		s, err := ReadStat(pid)
		if err != nil {
			return nil, err
		}
		isWhole := s.ready && s.env == uint64(len(text))
		if isWhole || s.space == 0 || !s.Runs() || time.Now().After(until) {
			return text, nil
		}
	}
}

// HasEnded reports whether a child is a zombie, and leaves it one.
func HasEnded(pid int) bool {
	var info unix.Siginfo
	err := again(func() error { return unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) })
	return err != nil || info.Signo != 0
}

// again does what a signal has interrupted.
func again(do func() error) (err error) {
	for err = do(); errors.Is(err, unix.EINTR); err = do() {
		continue
	}
	return err
}

// Children lists the direct children of this process, zombies too; false where the kernel
// does not tell. Orphans that were adopted belong to any of our threads.
func Children() (pids []int, ok bool) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, false
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if errors.Is(err, unix.ENOENT) && task.Name() == strconv.Itoa(os.Getpid()) {
			return nil, false // a kernel without CONFIG_PROC_CHILDREN
		}
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, true
}

// BootID changes with every boot; empty when unknown. Start times are counted
// from boot, so they identify a process only together with it.
func BootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text))
}

// KillMarked sends KILL to all that were started with a variable, given as NAME=value, and
// lists them. A pidfd holds each, so that its number cannot be given away between the look and
// the signal.
func KillMarked(mark string) (found []int) {
	for _, pid := range Processes() {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if HasEnv(pid, mark) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			found = append(found, pid)
		}
		_ = unix.Close(fd)
	}
	return found
}
