// Package rights has a process give up what it does not need any more, for good: the user
// that it was started as, all capabilities, the chance to get any back by executing another
// program, and the system calls that start programs or reach into others.
//
// The kernel keeps rights by thread, and Go's threads come and go: all that is here is done
// to each, and those to come are their clones. It needs a program without cgo.
package rights
