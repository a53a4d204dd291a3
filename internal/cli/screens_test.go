package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/glass"
)

// pictureColumns is the width of the terminals that the documents show: on a telephone its type is as large as that of a drawing.
const pictureColumns = 54

// TestScreens takes what the documents show of a terminal, of five real agents: BULLY_SCREENS names the directory, and
// make pictures says so. internal/test/pictures draws it.
func TestScreens(t *testing.T) {
	to := os.Getenv("BULLY_SCREENS")
	if to == "" {
		t.Skip("skipped: make pictures takes them")
	}
	tmp, err := os.MkdirTemp("/tmp", "pic") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join("..", "..", "bully-agent"), args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TERM=xterm", "TZ=UTC")
		return cmd
	}
	keep := func(s *glass.Session, file string) {
		if err := os.WriteFile(filepath.Join(to, file), []byte(s.Painted()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	lab := glass.Run(t, program("lab", "--nodes", "5"), pictureColumns, 36)
	for epoch := range 3 { // the first, and after two kills of who leads
		if epoch > 0 {
			lab.Type("lk")
		}
		led := regexp.MustCompile(fmt.Sprintf(`became leader +epoch %d`, epoch+1))
		lab.Until(led.String(), func(screen string) bool {
			return led.MatchString(screen) && strings.Count(screen, fmt.Sprintf(" %d      running", epoch+1)) == 5-epoch
		})
	}
	keep(lab, "lab.txt")
	lab.Type("4r") // the second that was killed
	sockets, err := filepath.Glob(filepath.Join(tmp, "bully-lab-*", "n1", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets of n1: %v, %v", sockets, err)
	}
	works := program("maintenance", "on", "--reason", "kernel upgrade", "--socket", strings.Replace(sockets[0], "/n1/", "/n2/", 1))
	if out, err := works.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	top := glass.Run(t, program("top", "--socket", sockets[0]), pictureColumns, 34)
	alive := regexp.MustCompile(`n\d +alive`)
	top.Until("four that are alive, and a note", func(screen string) bool {
		return len(alive.FindAllString(screen, -1)) >= 4 && strings.Contains(screen, "note: n2: maintenance")
	})
	keep(top, "top.txt")
	for _, s := range []*glass.Session{top, lab} {
		s.Type("q")
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
}
