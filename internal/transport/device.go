package transport

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// device is the interface, or the VRF, that a Transport's sockets are bound to (SO_BINDTODEVICE): they send and receive there alone. ""
// binds none. A socket that is not bound belongs to no VRF, and what comes from one does not reach it.
//
// A stream that is accepted has its listener's device.
type device string

// control is for what opens sockets, before they are bound to an address.
func (d device) control(_, _ string, raw syscall.RawConn) error {
	if d == "" {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), string(d)) })
	if err == nil && failed != nil {
		err = fmt.Errorf("bind to device %q: %w", string(d), failed)
	}
	return err
}

// listener opens sockets that others come to.
func (d device) listener() *net.ListenConfig {
	l := &net.ListenConfig{Control: d.control}
	l.SetMultipathTCP(false) // as net.ListenTCP: a second path would be another device
	return l
}

// dialer opens sockets to others.
func (d device) dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: d.control}
}
