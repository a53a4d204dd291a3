package keeper

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// outputs are the directories of what hooks and jobs have printed, which the agent shows.
var outputs = []string{"hook-output", "job-output"}

// shareOutput lets a group read what was printed, and what will be: new files are of the
// group of their directory. The journal and the records of holders stay this user's.
func shareOutput(dir string, group int) error {
	if group == 0 {
		return nil
	}
	shared := sharedMode(group, os.Getegid())
	for _, name := range outputs {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				return give(path, group, shared)
			case entry.Type().IsRegular():
				return give(path, group, 0o640)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("let the agent read %s: %w", name, err)
		}
	}
	return nil
}

// sharedMode is a directory's. Where the group is this process's own, its files are of that anyway, and a
// unit with RestrictSUIDSGID= lets nobody set the bit.
func sharedMode(group, own int) fs.FileMode {
	if group == own {
		return 0o750
	}
	return 0o750 | fs.ModeSetgid
}

// give changes the group first: that takes the bit away.
func give(path string, group int, mode fs.FileMode) error {
	if err := os.Lchown(path, -1, group); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
