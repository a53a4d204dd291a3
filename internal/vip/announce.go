package vip

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// schedule is when neighbours are told, from the first time on: five times in 200 ms, since a frame may be lost and they
// send to the old leader until they hear one, and for 5 s more: a switch may need that long to learn the way.
var schedule = []time.Duration{0, 45 * time.Millisecond, 90 * time.Millisecond, 135 * time.Millisecond, 180 * time.Millisecond,
	time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}

// tooLate is for an announcer that was frozen: what it would say may not be so any more. Arbitrary.
const tooLate = 500 * time.Millisecond

// Word has the program run Main in place of a command.
const Word = "announcer"

// announce tells the neighbours once, and leaves the rest to a process of its own. The addresses are there, whatever comes of
// it.
func announce(l link, w *wire, addresses []netip.Prefix, note func(string)) {
	first := now()
	if err := w.tell(l, addresses); err != nil {
		note(fmt.Sprintf("the neighbours were not told at once: %v", err))
	}
	args := []string{Word, strconv.Itoa(l.index()), strconv.FormatInt(int64(first), 10)}
	for _, p := range addresses {
		args = append(args, p.Addr().String())
	}
	announcer := exec.Command("/proc/self/exe", args...)
	announcer.Args[0], announcer.Dir = "bully-agent", "/"
	// In a group of its own it outlives the hook, and by the hook's environment it is ended with the leadership.
	announcer.Env = os.Environ()
	announcer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := announcer.Start(); err != nil {
		note(fmt.Sprintf("the neighbours are told once only: %v", err))
	}
}

// tell tells the neighbours of the addresses, once.
func (w *wire) tell(l link, addresses []netip.Prefix) error {
	own, ok := l.hardware()
	if !ok {
		return errors.New(l.name() + " has no Ethernet address any more")
	}
	isRouter := l.isRouter()
	for _, p := range addresses {
		frames := [][]byte{ndpAnnouncement(own, p.Addr(), isRouter)}
		if p.Addr().Is4() {
			frames = arpAnnouncements(own, p.Addr())
		}
		for _, frame := range frames {
			if err := w.send(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// Main is the whole life of an announcer: it tells the neighbours again, as long as the addresses are on the interface. A
// TERM ends it at once, in the middle of anything.
func Main() int {
	if err := announceOn(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

var errByHand = errors.New("this is a part of vip add, which starts it itself")

// announceOn has the index of an interface, the time of the first announcement, and addresses.
func announceOn(args []string) error {
	if len(args) < 3 {
		return errByHand
	}
	index, bad := strconv.Atoi(args[0])
	first, err := strconv.ParseInt(args[1], 10, 64)
	addresses, wrong := ParseBare(args[2:])
	if err := errors.Join(bad, err, wrong); err != nil {
		return errByHand
	}
	w, err := openWire(index)
	if err != nil {
		return err
	}
	defer w.close()
	for _, at := range schedule[1:] {
		at += time.Duration(first)
		time.Sleep(at - now())
		if now() > at+tooLate {
			continue
		}
		if done, err := w.tellAgain(index, addresses); done || err != nil {
			return err
		}
	}
	return nil
}

// tellAgain tells of the addresses that are on the interface still; done is true if none is. The hardware address may have
// changed: a bond's does.
func (w *wire) tellAgain(index int, addresses []netip.Prefix) (done bool, err error) {
	l, err := netlink.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	all, err := listHeld()
	if err != nil {
		return false, err
	}
	here := slices.DeleteFunc(slices.Clone(addresses), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(all, func(h held) bool { return h.LinkIndex == index && h.prefix.Addr() == p.Addr() })
	})
	_ = w.tell(link{l}, here) // fails while the interface is down
	return len(here) == 0, nil
}

// now is the time since boot, which two processes have in common. It stands while the host is suspended, as sleeps do.
func now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return time.Duration(t.Nano())
}
