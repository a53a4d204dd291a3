package rights

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter refuses what starts programs, reaches into other processes, or has made holes
// in kernels, and lets all else pass: which calls a Go program needs changes with each
// version of Go, and no list of those is safe. That of elastic/go-seccomp-bpf, which is
// well kept, lets all calls pass that are made as another architecture's (int 0x80 on
// amd64), so the program is written here, where it is hardly longer.

// machine is what the filter must know of an architecture.
type machine struct {
	audit  uint32
	forks  []uint32 // system calls that others do not have
	number uint32   // calls from there on are another architecture's; 0: none are
}

var machines = map[string]machine{
	"amd64": {audit: unix.AUDIT_ARCH_X86_64, forks: []uint32{57, 58}, number: 0x40000000}, // fork, vfork; x32
	"arm64": {audit: unix.AUDIT_ARCH_AARCH64},
}

// refused are the system calls that nothing here makes once the agent runs.
var refused = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_PERSONALITY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// Offsets in seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atFlags  = 16 // the lower half of the first argument, on little-endian machines
)

const (
	deny   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	allow  = unix.SECCOMP_RET_ALLOW
)

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func answer(with uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
}

// unless skips the next instructions where what was loaded does not compare so.
func unless(comparison uint16, with uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: with, Jf: skip}
}

// program is the filter for a machine. Processes are refused, threads are not: clone3, whose
// flags cannot be seen, is answered as by an old kernel, and Go's runtime does without.
func (m machine) program() []unix.SockFilter {
	p := []unix.SockFilter{
		load(atArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.audit, Jt: 1},
		answer(deny),
		load(atNumber),
	}
	if m.number != 0 {
		p = append(p, unless(unix.BPF_JGE, m.number, 1), answer(absent))
	}
	for _, call := range append(m.forks, refused...) {
		p = append(p, unless(unix.BPF_JEQ, call, 1), answer(deny))
	}
	return append(p,
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), answer(absent),
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 3),
		load(atFlags),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1},
		answer(deny),
		answer(allow))
}

// loadFilter puts the filter on all threads.
func loadFilter() error {
	m, ok := machines[runtime.GOARCH]
	if !ok {
		return nil // nobody has written one
	}
	program := m.program()
	whole := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&whole)))
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return nil // this kernel has none
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}
