package cli

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that exec and hold pass on to their command. It is in
// a session of its own, so that a key pressed at the terminal reaches it once, by
// this way alone.
var passedOn = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}

// catchSignals gives what is to be passed on. What the caller had ignored, as
// nohup does, stays so. The terminal's stop key does nothing: it would stop us alone,
// and not the command. A reader of our own lines that goes away is no reason to end.
func catchSignals() (caught <-chan os.Signal, release func()) {
	c := make(chan os.Signal, 8)
	for _, sig := range passedOn {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	dropped := make(chan os.Signal, 1) // Go does not tell whether these were ignored
	signal.Notify(dropped, unix.SIGTSTP, unix.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(dropped) }
}

// endsWait reports whether a signal ends an exec or hold that runs nothing.
func endsWait(sig os.Signal) bool {
	return slices.Contains([]os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP}, sig)
}

// interrupted is the end of a wait by a signal.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string {
	return "interrupted by " + unix.SignalName(i.signal.(unix.Signal))
}
