// Package making makes bully-agent for the tests that run it.
package making

import (
	"fmt"
	"os"
	"os/exec"
)

// Program writes the program to path, without cgo as it is released. All packages of a go test run get the same: the build cache keeps what go run has linked, and go
// build would link anew for each of them.
func Program(path string) error {
	copying := exec.Command("go", "run", "-buildvcs=false", "-exec", "cp", "github.com/bully-agent/bully-agent", path)
	copying.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}
