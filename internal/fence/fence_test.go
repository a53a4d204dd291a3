package fence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait; it is far above what any of them needs.
const patience = 30 * time.Second

// TestMain is also the process that others run many of: it checks the epochs on
// its standard input, one a line, and answers each. A counter "-N" is the present
// millisecond less N, so that many processes rise together.
func TestMain(m *testing.M) {
	if path := os.Getenv("FENCE_TEST_FILE"); path != "" {
		os.Exit(checkMany(path, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// checkMany answers "accepted EPOCH FROM TO" or "refused EPOCH FROM TO", with
// readings of one clock for all processes before and after.
func checkMany(path string, in io.Reader, out io.Writer) int {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		text := lines.Text()
		if behind, owner, _ := strings.Cut(text, "/"); strings.HasPrefix(behind, "-") {
			n, _ := strconv.Atoi(behind)
			text = fmt.Sprintf("%d/%s", monotonic()/1e6+int64(n), owner)
		}
		e, err := ParseEpoch(text)
		if err != nil {
			panic(err)
		}
		from := monotonic()
		err = Check(context.Background(), path, e, Options{})
		var refused *Refused
		word := "accepted"
		switch {
		case errors.As(err, &refused):
			word = "refused"
		case err != nil:
			fmt.Fprintln(out, "failed", err)
			return 1
		}
		fmt.Fprintln(out, word, e, from, monotonic())
	}
	return 0
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

func must(t *testing.T, path, epoch string) {
	t.Helper()
	if err := try(path, epoch); err != nil {
		t.Fatalf("epoch %s: %v", epoch, err)
	}
}

func mustRefuse(t *testing.T, path, epoch string) {
	t.Helper()
	var refused *Refused
	if err := try(path, epoch); !errors.As(err, &refused) {
		t.Fatalf("epoch %s: %v, want a refusal", epoch, err)
	}
}

func try(path, epoch string) error {
	e, err := ParseEpoch(epoch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return Check(ctx, path, e, Options{})
}

// G1: nothing below what has been accepted.
func TestEpochsOnlyRise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	must(t, path, "7/a")
	must(t, path, "7/a")
	mustRefuse(t, path, "6/a")
	mustRefuse(t, path, "7/b")
	mustRefuse(t, path, "7")
	must(t, path, "9/b")
	mustRefuse(t, path, "7/a")
	mustRefuse(t, path, "8/c")
	must(t, path, "9/b")
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Two leaderships that both begin the file: one of them is first.
func TestManyBeginAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	var accepted []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			epoch := fmt.Sprintf("5/node-%d", i)
			err := try(path, epoch)
			var refused *Refused
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accepted = append(accepted, epoch)
			case !errors.As(err, &refused):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(accepted) != 1 {
		t.Errorf("accepted %v, want one of them", accepted)
	}
}

func TestMustExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	err := Check(t.Context(), path, Epoch{1, "a"}, Options{MustExist: true})
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v, want that it does not exist", err)
	}
	must(t, path, "1/a")
	if err := Check(t.Context(), path, Epoch{2, "a"}, Options{MustExist: true}); err != nil {
		t.Fatal(err)
	}
}

// Promise 3, one line each.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("empty", "")
	write("other", "precious\n")
	if err := errors.Join(os.Symlink("nowhere", at("dangling")), os.Symlink("loop", at("loop")), unix.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"empty":          "not a fence file",
		"other":          "not a fence file",
		".":              "is a directory",
		"pipe":           "not a regular file",
		"dangling":       "a symbolic link to nothing?",
		"loop":           "too many levels",
		"missing/fence":  "no such file or directory",
		"other/fence":    "not a directory",
		"../../dev/null": "",
	} {
		path := at(name)
		if want == "" {
			path, want = "/dev/null", "not a regular file"
		}
		err := try(path, "5/a")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "fence file "+path+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, want)
		}
	}
	for name, want := range map[string]string{"empty": "", "other": "precious\n"} {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s was written to: %q (%v)", name, got, err)
		}
	}
}

func TestASymbolicLinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	must(t, filepath.Join(dir, "fence"), "5/a")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "fence"), link); err != nil {
		t.Fatal(err)
	}
	must(t, link, "6/a")
	mustRefuse(t, filepath.Join(dir, "fence"), "5/a")
}

// A process that was stopped while it held the lock.
func TestABusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	must(t, path, "5/a")
	holder, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Check(ctx, path, Epoch{6, "a"}, Options{}); !errors.Is(err, ErrBusy) {
		t.Fatalf("%v, want %v", err, ErrBusy)
	}
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	must(t, path, "5/a") // neither did the wait that was given up write, nor does it keep the lock
}

// helper is this program as checkMany.
func helper(path string, wrap ...string) *exec.Cmd {
	argv := append(wrap, os.Args[0], "-test.run=^$")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "FENCE_TEST_FILE="+path, "GOMAXPROCS=1")
	return cmd
}

func TestWithoutTheRight(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	dir, err := os.MkdirTemp("", "fence") // t.TempDir's parents are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "program")
	if text, err := os.ReadFile(os.Args[0]); err != nil || os.WriteFile(program, text, 0o755) != nil || os.Chmod(dir, 0o755) != nil {
		t.Fatal("copy the program: ", err)
	}
	must(t, filepath.Join(dir, "fence"), "5/a")
	for name, want := range map[string]string{
		"fence": "fence: open: permission denied", // 0600, root's
		"new":   "new: open: permission denied",
	} {
		cmd := helper(filepath.Join(dir, name))
		cmd.Path, cmd.Dir, cmd.Stdin = program, dir, strings.NewReader("6/a\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.Output()
		if !strings.HasPrefix(string(out), "failed fence file ") || !strings.HasSuffix(string(out), want+"\n") {
			t.Errorf("%s: %q, want a failure that ends in %q", name, out, want)
		}
	}
}

func TestAFullDisk(t *testing.T) {
	cmd := helper(filepath.Join(t.TempDir(), "fence"))
	cmd.Stdin = strings.NewReader("6/a\n")
	cmd.Env = append(cmd.Env, "FENCE_TEST_LIMIT=4096")
	out, _ := cmd.Output()
	if !strings.HasPrefix(string(out), "failed fence file ") || !strings.Contains(string(out), "too large") {
		t.Fatalf("%q, want that the file cannot be written", out)
	}
	left, err := os.ReadDir(filepath.Dir(cmd.Env[len(cmd.Env)-3][len("FENCE_TEST_FILE="):]))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// limit bounds the size of files: what a full disk is to a test without access.
func init() {
	if n, err := strconv.ParseUint(os.Getenv("FENCE_TEST_LIMIT"), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
}

// answer is one line of checkMany.
type answer struct {
	epoch    Epoch
	accepted bool
	from, to int64
}

func answers(t *testing.T, text []byte) (all []answer) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var word, epoch string
		var a answer
		if _, err := fmt.Sscan(string(line), &word, &epoch, &a.from, &a.to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e, err := ParseEpoch(epoch)
		if err != nil {
			t.Fatal(err)
		}
		a.epoch, a.accepted = e, word == "accepted"
		all = append(all, a)
	}
	return all
}

// Promise 1 among processes: whatever began after an acceptance had ended does
// not fall below it, no counter is accepted for two owners, and who is refused
// was overtaken by somebody.
func TestManyProcesses(t *testing.T) {
	const processes, checks = 16, 25
	path := filepath.Join(t.TempDir(), "fence")
	outputs := make([]bytes.Buffer, processes)
	var all sync.WaitGroup
	for i := range processes {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		var in strings.Builder
		for range checks {
			fmt.Fprintf(&in, "-%d/node-%d\n", 1+rng.IntN(10), i)
		}
		cmd := helper(path)
		cmd.Stdin, cmd.Stdout = strings.NewReader(in.String()), &outputs[i]
		all.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("process %d: %v: %s", i, err, outputs[i].String())
			}
		})
	}
	all.Wait()
	var seen []answer
	for i := range outputs {
		seen = append(seen, answers(t, outputs[i].Bytes())...)
	}
	if len(seen) != processes*checks {
		t.Fatalf("%d answers, want %d", len(seen), processes*checks)
	}
	judge(t, seen)
}

// judge holds a history against promise 1.
func judge(t *testing.T, seen []answer) {
	t.Helper()
	owners := make(map[uint64]string)
	accepted := 0
	for _, a := range seen {
		if !a.accepted {
			if !slices.ContainsFunc(seen, func(b answer) bool {
				return b.accepted && b.from < a.to && !a.epoch.follows(b.epoch)
			}) {
				t.Errorf("%v was refused, and nothing above it was accepted before", a.epoch)
			}
			continue
		}
		accepted++
		if owner, known := owners[a.epoch.Counter]; known && owner != a.epoch.Owner {
			t.Errorf("epoch %d was accepted of %s and of %s", a.epoch.Counter, owner, a.epoch.Owner)
		}
		owners[a.epoch.Counter] = a.epoch.Owner
		for _, b := range seen {
			if b.accepted && b.to < a.from && !a.epoch.follows(b.epoch) {
				t.Errorf("%v was accepted after %v", a.epoch, b.epoch)
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, len(seen)-accepted)
	if accepted == 0 || accepted == len(seen) {
		t.Error("the history shows nothing")
	}
}

// The process is killed at each of its system calls that change the disk, in
// turn; what it leaves is the old epoch or the new one, and the new one if it
// said so.
func TestKilledAtEachSystemCall(t *testing.T) {
	if testing.Short() {
		t.Skip("some forty processes under strace; without -short")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	for _, began := range []bool{false, true} {
		kills := 0
		for _, call := range []string{"openat", "flock", "read", "write", "pwrite64", "fsync", "linkat,link", "unlinkat,unlink"} {
			for when := 1; ; when++ {
				path := filepath.Join(t.TempDir(), "fence")
				if began {
					must(t, path, "41/alpha")
				}
				// -P: the calls of the runtime do not count
				wrap := []string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
					"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, when), "-P", filepath.Dir(path), "-P", path}
				if !began {
					wrap = wrap[:len(wrap)-4] // the file's name is not known yet
				}
				cmd := helper(path, wrap...)
				cmd.Stdin = strings.NewReader("42/beta\n")
				said, err := cmd.Output()
				if err == nil {
					break // fewer calls than that
				}
				kills++
				survives(t, path, fmt.Sprintf("%s %d", call, when), said)
				if when > 60 {
					t.Fatalf("%s: the process is killed at every call?", call)
				}
			}
		}
		t.Logf("begun before: %v, killed %d times", began, kills)
		if kills < 4 {
			t.Errorf("killed only %d times", kills)
		}
	}
}

// survives checks what a killed check of 42/beta left, after 41/alpha or nothing.
func survives(t *testing.T, path, where string, said []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && len(said) == 0:
	case err != nil:
		t.Fatalf("killed at %s: %v", where, err)
	default:
		got, _, err := plan(content, Epoch{42, "beta"})
		if err != nil || got != (Epoch{41, "alpha"}) && got != (Epoch{42, "beta"}) {
			t.Fatalf("killed at %s: left %v (%v)", where, got, err)
		}
		if bytes.HasPrefix(said, []byte("accepted")) && got.Counter != 42 {
			t.Fatalf("killed at %s: accepted, and the file holds %v", where, got)
		}
	}
	must(t, path, "42/beta")
	mustRefuse(t, path, "41/alpha")
}
