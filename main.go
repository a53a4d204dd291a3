//go:build linux

// Elsewhere the line above is the error message: the program stands on CLOCK_BOOTTIME, netlink and /proc.

// Bully-agent runs on every host of a LAN. The hosts find each other, agree on
// one leader by the Bully algorithm, and run the user's hooks on that leader, and
// only there.
package main

import (
	"os"

	"github.com/bully-agent/bully-agent/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
