package vip

import "golang.org/x/sys/unix"

// Rights says which right this process lacks to keep addresses; nil: none. The error is a Complaint.
func Rights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil // whoever begins them says so
	}
	for _, c := range []struct {
		bit        uint
		name, what string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "put addresses on an interface"}, {unix.CAP_NET_RAW, "CAP_NET_RAW", "announce an address"}} {
		if data[0].Effective&(1<<c.bit) == 0 {
			return lacks(unix.EPERM, c.what, c.name)
		}
	}
	return nil
}
