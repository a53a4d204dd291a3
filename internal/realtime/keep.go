package realtime

import "golang.org/x/sys/unix"

// Keep lets this process, which is about to give up the right to real time, be raised again
// after it was lowered: the limit of its user's stands in for the right. In one that has not
// entered it does nothing.
func Keep() error {
	if !sheds.Load() {
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTPRIO, &limit); err != nil {
		return err
	}
	limit.Cur, limit.Max = max(limit.Cur, Priority), max(limit.Max, Priority)
	return unix.Setrlimit(unix.RLIMIT_RTPRIO, &limit)
}
