// Command gen writes the manual pages into a directory:
//
//	go run ./internal/manual/gen DIRECTORY VERSION DAY
//
// The same arguments and sources give the same bytes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bully-agent/bully-agent/internal/cli"
	"github.com/bully-agent/bully-agent/internal/manual"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "error: expected three arguments: DIRECTORY VERSION DAY")
		os.Exit(2)
	}
	if err := write(os.Args[1], manual.Edition{Version: os.Args[2], Day: os.Args[3]}); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func write(dir string, e manual.Edition) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, page := range cli.Manual(e) {
		if err := os.WriteFile(filepath.Join(dir, page.File()), []byte(page.Text()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
