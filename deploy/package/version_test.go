package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each commit's version sorts above the one before, and a build before a release below it, as dpkg compares them.
func TestVersionsRise(t *testing.T) {
	for _, tool := range []string{"git", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: %s is not installed", tool)
		}
	}
	dir := t.TempDir()
	script, err := filepath.Abs("version")
	if err != nil {
		t.Fatal(err)
	}
	git := func(day string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-"+day+"T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("01", "init", "--quiet")
	var before string
	for i, tag := range []string{"", "v1.2.2", "", "", "v1.2.3-rc1", "", "v1.2.3-rc2", "", "v1.2.3", ""} {
		day := string([]byte{'1', byte('0' + i)})
		git(day, "commit", "--quiet", "--allow-empty", "--message", "a")
		if tag != "" {
			git(day, "tag", tag)
		}
		cmd := exec.Command("sh", script)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		version := strings.Replace(strings.TrimSpace(string(out)), "-", "~", 1) // as deploy/package/build writes it
		if tag != "" && version != strings.Replace(tag[1:], "-", "~", 1) {
			t.Errorf("at %s the version is %s", tag, version)
		}
		if before != "" && exec.Command("dpkg", "--compare-versions", before, "lt", version).Run() != nil {
			t.Errorf("%s does not sort below %s, which comes after it", before, version)
		}
		before = version
	}
}
