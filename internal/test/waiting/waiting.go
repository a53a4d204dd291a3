// Package waiting is for the TestMain of tests that wait more than they compute.
package waiting

import (
	"flag"
	"os"
	"strconv"
	"syscall"
)

// Together has n parallel tests run at a time, on however few processors, unless the command line says how many.
func Together(n int) {
	flag.Parse()
	isSaid := false
	flag.Visit(func(f *flag.Flag) { isSaid = isSaid || f.Name == "test.parallel" })
	if isSaid {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // not of a test
	}
}

// InMemory has this run's temporary directories in memory, so that no test waits for a disk. They stay where they are if somebody has
// said where, or where memory has little room or starts no programs, as in some containers.
func InMemory() {
	const (
		place  = "/dev/shm"
		room   = 256 << 20
		noExec = 8 // ST_NOEXEC of statfs(2)
	)
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(place, &fs) != nil || fs.Flags&noExec != 0 || fs.Bavail*uint64(fs.Bsize) < room {
		return
	}
	if err := os.Setenv("TMPDIR", place); err != nil {
		panic(err) // not of a name and a value without zeros
	}
}
