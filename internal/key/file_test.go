package key

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// secretOf is a secret whose bytes are all n.
func secretOf(n byte) (s [Size]byte) {
	for i := range s {
		s[i] = n
	}
	return s
}

func keyOf(n byte) Key {
	return Key{ID: IDOf(secretOf(n)), Made: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), Secret: secretOf(n)}
}

// lineOf is a key's line, without its end.
func lineOf(k Key) string {
	lines := strings.Split(strings.TrimSpace(string(Ring{k}.Format())), "\n")
	return lines[len(lines)-1]
}

func TestFormatIsRead(t *testing.T) {
	ring := Ring{keyOf(1), keyOf(2), keyOf(3), keyOf(4)}
	got, err := Parse("key", ring.Format())
	if err != nil || !got.Equal(ring) {
		t.Fatalf("got %v, %v", got, err)
	}
	const line = "bully-key-1 d3a6f8a5 2026-11-22 AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
	if got := lineOf(keyOf(1)); got[:12] != line[:12] || got[20:] != line[20:] {
		t.Errorf("the form is %q, want that of %q", got, line)
	}
}

// Case 57: what editors and other systems make of a file does not matter.
func TestCase57CommentsAndCRLF(t *testing.T) {
	a, b := lineOf(keyOf(1)), lineOf(keyOf(2))
	for name, text := range map[string]string{
		"comments":        "# ours\n" + a + "\n\n  # the next\n" + b + "\n",
		"CRLF":            "# ours\r\n" + a + "\r\n" + b + "\r\n",
		"no last newline": a + "\n" + b,
		"byte order mark": "\ufeff" + a + "\n" + b + "\n",
		"spaces":          "  " + strings.ReplaceAll(a, " ", " \t ") + "  \n" + b + "\n",
	} {
		if ring, err := Parse("key", []byte(text)); err != nil || !ring.Equal(Ring{keyOf(1), keyOf(2)}) {
			t.Errorf("%s: %v, %v", name, ring, err)
		}
	}
}

// Case 56: each line that is wrong is named, with what was found and what was expected, and
// nothing of a secret is told.
func TestCase56BadLines(t *testing.T) {
	good := lineOf(keyOf(1))
	head := good[:len(good)-secretChars]
	secret := good[len(head):]
	const form = "expected bully-key-1, the id, the day and the key, with a space between; hint: "
	const bytes32 = "expected 32 bytes as 43 characters of base64url; hint: "
	const take = "take it from a host whose file is right: scp -p HOST:/k/key /k/key"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "/k/key: no key in it: expected one to four, a line each; hint: rm /k/key; on the first host: bully-agent key generate --key /k/key; on the others: scp -p FIRST:/k/key /k/key"},
		{"comments only", "# soon\n", "/k/key: no key in it: expected one to four, a line each; hint: rm /k/key; on the first host: bully-agent key generate --key /k/key; on the others: scp -p FIRST:/k/key /k/key"},
		{"31 bytes", head + secret[:42], "/k/key:1: 31 bytes, in 42 characters: " + bytes32 + take},
		{"33 bytes", head + secret + "A", "/k/key:1: 33 bytes, in 44 characters: " + bytes32 + take},
		{"truncated in the key", head + secret[:20], "/k/key:1: 15 bytes, in 20 characters: " + bytes32 + take},
		{"truncated before it", strings.TrimSpace(head), "/k/key:1: a line that ends after 3 of 4 parts: " + form + take},
		{"a fifth part", good + " x", "/k/key:1: 5 parts: expected 4: bully-key-1, the id, the day and the key, with a space between; hint: " + take},
		{"hexadecimal", head + strings.Repeat("01", 32), "/k/key:1: 64 hexadecimal digits: " + bytes32 + take},
		{"padded", head + secret + "=", "/k/key:1: base64 of another alphabet: " + bytes32 + take},
		{"standard base64", head + "+/" + secret[2:], "/k/key:1: base64 of another alphabet: " + bytes32 + take},
		{"a slip in the last character", head + secret[:42] + "F", "/k/key:1: 43 characters, the last of which cannot be the end of 32 bytes: " + bytes32 + take},
		{"no base64 at all", head + "päßwörd!", "/k/key:1: 11 bytes of text that is no base64url: " + bytes32 + take},
		{"zero", strings.Replace(head, "bully-key-1 "+keyOf(1).ID.String(), "bully-key-1 "+keyOf(0).ID.String(), 1) + strings.Repeat("A", 43),
			"/k/key:1: a key of zeros: expected 32 random bytes; hint: " + take},
		{"the id of another", "# c\n" + strings.Replace(good, keyOf(1).ID.String(), keyOf(2).ID.String(), 1),
			"/k/key:2: id " + keyOf(2).ID.String() + ": expected " + keyOf(1).ID.String() + ", which follows from the key: one of the two has a slip; hint: " + take},
		{"no id", strings.Replace(good, keyOf(1).ID.String(), "4f1c", 1), "/k/key:1: an id that is none: expected eight hexadecimal digits; hint: " + take},
		{"no day", strings.Replace(good, "2026-11-22", "2026-13-22", 1), "/k/key:1: a day that is none: expected one such as 2026-11-22; hint: " + take},
		{"a later form", strings.Replace(good, "bully-key-1", "bully-key-2", 1),
			"/k/key:1: a key of form 2: expected form 1, which this version knows; hint: upgrade bully-agent here; or " + take},
		{"a password", "correct horse battery staple", "/k/key:1: a line that begins with something else: " + form + take},
		{"doubled", good + "\n" + lineOf(keyOf(2)) + "\n" + good,
			"/k/key:3: key " + keyOf(1).ID.String() + " again, which is on line 1: expected each key once; hint: sed -i 3d /k/key"},
		{"five", string(Ring{keyOf(1), keyOf(2), keyOf(3), keyOf(4), keyOf(5)}.Format()), "/k/key:6: a fifth key: expected at most four; hint: sed -i 6d /k/key"},
		{"two lines", "x\n" + head, "/k/key:1: a line that begins with something else: " + form + take + "\n/k/key:2: a line that ends after 3 of 4 parts: " + form + take},
		{"a text", strings.Repeat("x\n", 100), func() (all string) {
			for i := range maxWrong {
				all += fmt.Sprintf("/k/key:%d: a line that begins with something else: %s%s\n", i+1, form, take)
			}
			return all + "/k/key:9: more that is wrong, and was not read: expected one to four keys, a line each; hint: " + take
		}()},
		{"a disk image", strings.Repeat("\x00", maxFile+1), "/k/key: more than 16384 bytes: expected one to four keys, a line each; hint: " + take},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ring, err := Parse("/k/key", []byte(tt.text))
			if err == nil || ring != nil {
				t.Fatalf("read as %v", ring)
			}
			if err.Error() != tt.want {
				t.Errorf("it says\n%s\nwant\n%s", err, tt.want)
			}
			if strings.Contains(err.Error(), secret[2:20]) {
				t.Error("the message tells the secret")
			}
		})
	}
}

// Cases 52 to 55, and all else that a key's file can be instead of one: a line with what it
// is and what mends it.
func TestCase52To55FilesThatAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	dir := func(t *testing.T, mode os.FileMode) string {
		d := filepath.Join(t.TempDir(), "d")
		must(t, os.Mkdir(d, 0o700))
		must(t, os.Chmod(d, mode))
		return d
	}
	for _, tt := range []struct {
		name    string
		arrange func(t *testing.T) string // gives the key's path
		want    string                    // KEY and DIR stand for the paths
	}{
		{"case 52: mode 0644", func(t *testing.T) string { return file(t, dir(t, 0o700), 0o644) },
			"KEY: readable by everyone (mode -rw-r--r--): expected a file that only root can read; hint: chmod 600 KEY"},
		{"case 52: mode 0640", func(t *testing.T) string { return file(t, dir(t, 0o700), 0o640) },
			"KEY: readable by group 0 (mode -rw-r-----): expected a file that only root can read; hint: chmod 600 KEY"},
		{"case 52: mode 0620", func(t *testing.T) string { p := file(t, dir(t, 0o700), 0o620); must(t, os.Chown(p, 0, 50)); return p },
			"KEY: writable by group 50 (mode -rw--w----): expected a file that only root can read; hint: chmod 600 KEY"},
		{"case 53: another's", func(t *testing.T) string { p := file(t, dir(t, 0o700), 0o600); must(t, os.Chown(p, 1000, 0)); return p },
			"KEY: owned by uid 1000 (mode -rw-------): expected a file that only root can read; hint: chown root KEY"},
		{"case 54: a link", func(t *testing.T) string {
			d := dir(t, 0o700)
			must(t, os.Symlink(file(t, d, 0o600), filepath.Join(d, "link")))
			return filepath.Join(d, "link")
		}, "KEY: a symbolic link: expected the file itself; hint: rm KEY && cp -p DIR/key KEY"},
		{"case 54: a link to nothing", func(t *testing.T) string {
			d := dir(t, 0o700)
			must(t, os.Symlink("nowhere", filepath.Join(d, "link")))
			return filepath.Join(d, "link")
		}, "KEY: a symbolic link: expected the file itself; hint: rm KEY; on the first host: bully-agent key generate --key KEY; on the others: scp -p FIRST:KEY KEY"},
		{"case 55: a parent that all can write", func(t *testing.T) string { return file(t, dir(t, 0o777), 0o600) },
			"KEY: DIR is writable by everyone (mode drwxrwxrwx): expected a directory that only root can change; hint: chmod o-w DIR"},
		{"case 55: another's parent", func(t *testing.T) string {
			d := dir(t, 0o700)
			p := file(t, d, 0o600)
			must(t, os.Chown(d, 1000, 0))
			return p
		}, "KEY: DIR is owned by uid 1000 (mode drwx------): expected a directory that only root can change; hint: chown root DIR"},
		{"a pipe", func(t *testing.T) string {
			p := filepath.Join(dir(t, 0o700), "key")
			must(t, unix.Mkfifo(p, 0o600))
			return p
		},
			"KEY: a FIFO: expected a file; hint: rm KEY; on the first host: bully-agent key generate --key KEY; on the others: scp -p FIRST:KEY KEY"},
		{"a directory", func(t *testing.T) string {
			p := filepath.Join(dir(t, 0o700), "key")
			must(t, os.Mkdir(p, 0o700))
			return p
		},
			"KEY: a directory: expected a file; hint: rmdir KEY; on the first host: bully-agent key generate --key KEY; on the others: scp -p FIRST:KEY KEY"},
		{"a device", func(t *testing.T) string { return "/dev/null" }, "KEY: a device: expected a file; hint: " + anotherFile},
		{"a socket", func(t *testing.T) string {
			p := filepath.Join(dir(t, 0o700), "key")
			l, err := net.Listen("unix", p)
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
			return p
		}, "KEY: a socket: expected a file; hint: " + anotherFile},
		{"a name of two lines", func(t *testing.T) string { return filepath.Join(dir(t, 0o700), "it's\n\"a\"") },
			`"DIR/it's\n\"a\"": there is no such file: expected one with keys; hint: on the first host: bully-agent key generate --key $'DIR/it\'s\n"a"'; on the others: scp -p FIRST:$'DIR/it\'s\n"a"' $'DIR/it\'s\n"a"'`},
		{"nothing", func(t *testing.T) string { return filepath.Join(dir(t, 0o700), "key") },
			"KEY: there is no such file: expected one with keys; hint: on the first host: bully-agent key generate --key KEY; on the others: scp -p FIRST:KEY KEY"},
		{"below a file", func(t *testing.T) string { return filepath.Join(file(t, dir(t, 0o700), 0o600), "key") },
			"KEY: it cannot be read: not a directory: expected a file that uid 0 can read; hint: " + anotherFile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.arrange(t)
			ring, err := Read(path)
			if err == nil || ring != nil {
				t.Fatalf("read as %v", ring)
			}
			want := strings.NewReplacer("KEY", path, "DIR", filepath.Dir(path)).Replace(tt.want)
			if err.Error() != want {
				t.Errorf("it says\n%s\nwant\n%s", err, want)
			}
			if code := new(Error); !errors.As(err, &code) || code.ExitCode() != 7 {
				t.Errorf("no exit code 7: %#v", err)
			}
		})
	}
}

// All that is wrong is said at once.
func TestEachThingWrongHasALine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	d := filepath.Join(t.TempDir(), "d")
	must(t, os.Mkdir(d, 0o700))
	must(t, os.Chmod(d, 0o777))
	path := filepath.Join(d, "key")
	must(t, os.WriteFile(path, []byte("x\ny\n"), 0o600))
	must(t, os.Chmod(path, 0o644))
	if _, err := Read(path); err == nil || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("it says\n%v\nwant a line for the directory, one for the mode and two for the text", err)
	}
}

func TestRead(t *testing.T) {
	path := file(t, t.TempDir(), 0o600)
	ring, err := Read(path)
	if err != nil || !ring.Equal(Ring{keyOf(1)}) {
		t.Errorf("%v, %v", ring, err)
	}
	if _, err := Read(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A text that was meant for a path and is a key is known as one.
func TestLooksLikeSecret(t *testing.T) {
	secret := lineOf(keyOf(0xfb))[len(lineOf(keyOf(0xfb)))-secretChars:]
	for _, is := range []string{secret, lineOf(keyOf(1)), strings.Repeat("0a", 32), strings.Repeat("a", 42) + "+=", " bully-key-1 4f1c9a02 2026-", "bully-key-1 4f1c9a0 AQEB"} {
		if !LooksLikeSecret(is) {
			t.Errorf("%q is taken for a path", is)
		}
	}
	for _, not := range []string{"", "key", "/etc/bully-agent/key", "./" + secret, "keys/alpha", "/run/credentials/bully-agent.service/bully-agent-key",
		strings.Repeat("k", 42), strings.Repeat("k", 44)} {
		if LooksLikeSecret(not) {
			t.Errorf("%q is taken for a key", not)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lineOf(keyOf(1))))
	f.Add(Ring{keyOf(1), keyOf(2)}.Format())
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := Parse("key", text)
		if err != nil {
			return
		}
		if again, err := Parse("key", ring.Format()); err != nil || !again.Equal(ring) || len(ring) == 0 || len(ring) > MaxKeys {
			t.Errorf("%v is written and read as %v, %v", ring, again, err)
		}
	})
}

// file makes a key's file with the first key.
func file(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, "key")
	must(t, os.WriteFile(path, []byte(lineOf(keyOf(1))+"\n"), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Case 60: a key is never overwritten; and nothing is made where others could change it.
func TestCase60MakeAndReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "key")
	must(t, Make(path, Ring{keyOf(1)}, os.Geteuid(), os.Getegid()))
	want := path + ": it is there already: expected no file, since a key is never overwritten; " +
		"hint: bully-agent key status shows what is in it; bully-agent key rotate replaces it on all hosts"
	if err := Make(path, Ring{keyOf(2)}, os.Geteuid(), os.Getegid()); !errors.Is(err, fs.ErrExist) || err.Error() != want {
		t.Errorf("again: %v", err)
	}
	if ring, err := Read(path); err != nil || !ring.Equal(Ring{keyOf(1)}) {
		t.Errorf("read %v, %v", ring, err)
	}
	must(t, Replace(path, Ring{keyOf(2), keyOf(1)}))
	if ring, err := Read(path); err != nil || !ring.Equal(Ring{keyOf(2), keyOf(1)}) {
		t.Errorf("read %v, %v", ring, err)
	}
	if err := Replace(path+"2", Ring{keyOf(2)}); err == nil {
		t.Error("replaced what is not there")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}

	must(t, os.Chmod(dir, 0o777))
	below := filepath.Join(dir, "c", "key")
	if err := Make(below, Ring{keyOf(1)}, os.Geteuid(), os.Getegid()); err == nil || !strings.HasPrefix(err.Error(), below+": "+dir+" is writable by everyone") {
		t.Errorf("below what all can change: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(below)); err == nil {
		t.Error("a directory was made all the same")
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	if err := Make(filepath.Join(dir, "link"), Ring{keyOf(1)}, os.Geteuid(), os.Getegid()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a link to nothing: %v", err)
	}
}

// What root makes for the agent's user that user can read, and root's commands with it.
func TestMakeForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other owners")
	}
	path := filepath.Join(t.TempDir(), "key")
	must(t, Make(path, Ring{keyOf(1)}, 7950, 7950))
	if _, err := Read(path); err == nil {
		t.Error("root reads the file of just anybody")
	}
	must(t, Replace(path, Ring{keyOf(2)}))
	if ring, err := Read(path, 7950); err != nil || !ring.Equal(Ring{keyOf(2)}) {
		t.Errorf("read %v, %v", ring, err)
	}
}

// asAnother runs f on a thread that is another user's, and ends with it.
func asAnother(t *testing.T, uid uintptr, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another")
	}
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // for ever, so that no other goroutine is run by it
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}

// Who may not read or write is told which right is missing.
func TestWithoutTheRight(t *testing.T) {
	open, err := os.MkdirTemp("", "key") // not below the tests' own, which only root may enter
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	must(t, os.Chmod(open, 0o755))
	locked := filepath.Join(open, "locked")
	must(t, os.Mkdir(locked, 0o700))
	below, beside := file(t, locked, 0o600), file(t, open, 0o600)
	own := filepath.Join(open, "own")
	must(t, os.Mkdir(own, 0o700))
	must(t, os.Chown(own, 7950, 7950))
	made := filepath.Join(own, "key")
	asAnother(t, 7950, func() {
		for what, tt := range map[string]struct {
			do   func() error
			want string
		}{
			"a directory": {func() error { _, err := Read(below); return err },
				below + ": it cannot be read, since " + locked + " cannot be searched: expected a directory that everyone can search; hint: chmod a+x " + locked},
			"a file": {func() error { _, err := Read(beside); return err },
				beside + ": it cannot be read: permission denied: expected a file that uid 7950 can read; hint: chown 7950 " + beside},
			"another's": {func() error { return Make(made, Ring{keyOf(1)}, 0, 0) },
				made + ": uid 7950 cannot make a file of another user's: expected root; hint: sudo bully-agent key generate"},
			"a place": {func() error { return Make(beside+"2", Ring{keyOf(1)}, 7950, 0) },
				beside + "2: it cannot be written: permission denied: expected a place where uid 7950 can write; hint: " + anotherFile},
		} {
			if err := tt.do(); err == nil || err.Error() != tt.want {
				t.Errorf("%s: it says\n%v\nwant\n%s", what, err, tt.want)
			}
		}
	})
	if entries, err := os.ReadDir(own); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
