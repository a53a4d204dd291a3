package durable

import (
	"fmt"
	"os"
	"time"
)

// TimeSyncs writes a small file in dir, and has it on disk, n times, but for no longer than a span if that is enough for
// one; it gives how long each took, and removes the file.
func TimeSyncs(dir string, n int, within time.Duration) (took []time.Duration, err error) {
	made, err := os.CreateTemp(dir, ".timing-*")
	if err != nil {
		return nil, fmt.Errorf("time writes: %w", err)
	}
	f := &file{File: made, handle: handles.Add(1)}
	defer os.Remove(f.Name())
	defer f.Close()
	block, begun := make([]byte, SlotSize), BootTime()
	for len(took) < n && (len(took) == 0 || BootTime()-begun < within) {
		at := BootTime()
		if err := f.writeAt(block, 0); err != nil {
			return nil, fmt.Errorf("time writes: %w", err)
		}
		if err := f.sync(); err != nil {
			return nil, fmt.Errorf("time writes: %w", err)
		}
		took = append(took, BootTime()-at)
	}
	return took, nil
}
