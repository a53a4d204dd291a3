package access

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKind(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{os.WriteFile(at("file"), nil, 0o600), os.Symlink("file", at("link")), unix.Mkfifo(at("fifo"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{dir: "a directory", at("file"): "a file", at("link"): "a symbolic link", at("fifo"): "a FIFO",
		at("socket"): "a socket", "/dev/null": "a device"} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := Kind(info.Mode()); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
