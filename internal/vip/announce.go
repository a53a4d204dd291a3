package vip

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Word makes the program run Main in place of a command.
const Word = "announcer"

// order is what an announcer is told: addresses on an interface, and how many of them, the first, have been said already.
//
// It is words, of a command line or of one packet: the interface's index, the time, how many, the addresses.
type order struct {
	index     int
	at        time.Duration // by now
	told      int
	addresses []netip.Addr
}

func (o order) words() []string {
	words := []string{strconv.Itoa(o.index), strconv.FormatInt(int64(o.at), 10), strconv.Itoa(o.told)}
	for _, addr := range o.addresses {
		words = append(words, addr.String())
	}
	return words
}

var errByHand = errors.New("this is a part of vip add, which starts it itself")

func parseOrder(words []string) (o order, err error) {
	if len(words) < 4 {
		return order{}, errByHand
	}
	index, bad := strconv.Atoi(words[0])
	at, late := strconv.ParseInt(words[1], 10, 64)
	told, many := strconv.Atoi(words[2])
	prefixes, wrong := ParseBare(words[3:])
	if err := errors.Join(bad, late, many, wrong); err != nil || told < 0 {
		return order{}, errByHand
	}
	o = order{index: index, at: time.Duration(at), told: told}
	for _, p := range prefixes {
		o.addresses = append(o.addresses, p.Addr())
	}
	return o, nil
}

// announce tells the neighbours once, of as many addresses as may be said at once, and leaves the rest to an announcer: the one
// that the hook has already, or a process of its own. The addresses are there, whatever comes of it.
func announce(l link, w *wire, addresses []netip.Prefix, note func(string)) {
	o := order{index: l.index(), at: now()}
	frames := 0
	for _, p := range addresses {
		o.addresses = append(o.addresses, p.Addr())
		if frames += framesOf(p.Addr()); frames <= burst {
			o.told++
		}
	}
	for _, addr := range o.addresses[:o.told] {
		if err := w.tell(l, addr); err != nil {
			note(fmt.Sprintf("the neighbours were not told at once: %v", err))
			break
		}
	}
	if handOver(runName(os.Getenv), o) {
		return
	}
	announcer := exec.Command("/proc/self/exe", append([]string{Word}, o.words()...)...)
	announcer.Args[0], announcer.Dir = "bully-agent", "/"
	// In a group of its own it outlives the hook, and by the hook's environment it is ended with the leadership.
	announcer.Env = os.Environ()
	announcer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := announcer.Start(); err != nil {
		note(fmt.Sprintf("the neighbours are told once only: %v", err))
	}
}

// tell tells the neighbours of an address, once.
func (w *wire) tell(l link, addr netip.Addr) error {
	own, ok := l.hardware()
	if !ok {
		return errors.New(l.name() + " has no Ethernet address any more")
	}
	frames := [][]byte{ndpAnnouncement(own, addr, l.isRouter())}
	if addr.Is4() {
		frames = arpAnnouncements(own, addr)
	}
	for _, frame := range frames {
		if err := w.send(frame); err != nil {
			return err
		}
	}
	return nil
}

// Main is the whole life of an announcer. It tells the neighbours again, as long as the addresses are on the interface: as the
// schedule says, and if there is a leadership to ask, for as long as that lasts. lead gives it, nil if there is none. A TERM ends
// it at once, in the middle of anything.
func Main(lead func() Leadership) int {
	o, err := parseOrder(os.Args[2:])
	if err == nil {
		err = announceOn(o, lead())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// now is the time since boot, which two processes have in common. It stands while the host is suspended, as sleeps do.
func now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return time.Duration(t.Nano())
}
