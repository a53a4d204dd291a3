package rights

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
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
	files  []uint32 // likewise, and these take a path
	number uint32   // calls from there on are another architecture's; 0: none are
}

var machines = map[string]machine{
	"amd64": {audit: unix.AUDIT_ARCH_X86_64, forks: []uint32{57, 58}, number: 0x40000000, // fork, vfork; x32
		// open, truncate, rename, mkdir, rmdir, creat, link, unlink, symlink, chmod, chown, lchown, mknod, renameat
		files: []uint32{2, 76, 82, 83, 84, 85, 86, 87, 88, 90, 92, 94, 133, 264}},
	"arm64": {audit: unix.AUDIT_ARCH_AARCH64, files: []uint32{38, 45}}, // renameat, truncate
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

// confined are those that a process besides does not make that only serves what it has open: what opens a
// file or a socket, changes one's mode, which would let it open again what it may only read, ends other
// processes, or makes this one more important.
var confined = []uint32{
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_SYMLINKAT, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_FTRUNCATE,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_OPEN,
	unix.SYS_SETPRIORITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM,
	unix.SYS_MEMFD_CREATE, unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT, unix.SYS_PRLIMIT64,
}

// Offsets in seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atFirst  = 16 // the lower half of the first argument, on little-endian machines
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

// program is the filter for a machine, which refuses these besides. Processes are refused, threads are not: clone3, whose
// flags cannot be seen, is answered as by an old kernel, and Go's runtime does without.
func (m machine) program(besides ...uint32) []unix.SockFilter {
	p := []unix.SockFilter{
		load(atArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.audit, Jt: 1},
		answer(deny),
		load(atNumber),
	}
	if m.number != 0 {
		p = append(p, unless(unix.BPF_JGE, m.number, 1), answer(absent))
	}
	for _, call := range slices.Concat(m.forks, refused, besides) {
		p = append(p, unless(unix.BPF_JEQ, call, 1), answer(deny))
	}
	return append(p,
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), answer(absent),
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 3),
		load(atFirst),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1},
		answer(deny),
		answer(allow))
}

// confinement is the filter of a process that only serves. It may signal its own threads, as Go's runtime does, and nobody else's.
func (m machine) confinement(own int) []unix.SockFilter {
	p := m.program(slices.Concat(m.files, confined)...)
	head := slices.IndexFunc(p, func(f unix.SockFilter) bool { return f == load(atNumber) }) + 1
	return slices.Insert(p, head,
		unless(unix.BPF_JEQ, unix.SYS_TGKILL, 4),
		load(atFirst),
		unless(unix.BPF_JEQ, uint32(own), 1),
		answer(allow),
		answer(deny))
}

// loadFilter puts the filter of the agent on all threads.
func loadFilter() error {
	err := loadProgram(func(m machine) []unix.SockFilter { return m.program() })
	if errors.Is(err, errNoFilter) {
		return nil
	}
	return err
}

// errNoFilter is returned where there can be none: nobody has written one for this architecture, or the kernel has none.
var errNoFilter = errors.New("this kernel or architecture has no filter")

// loadProgram puts a filter on all threads.
func loadProgram(of func(machine) []unix.SockFilter) error {
	m, ok := machines[runtime.GOARCH]
	if !ok {
		return errNoFilter
	}
	program := of(m)
	whole := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&whole)))
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return errNoFilter
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}
