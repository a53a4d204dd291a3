// Package waiting is for the TestMain of tests that wait more than they compute.
package waiting

import (
	"flag"
	"strconv"
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
