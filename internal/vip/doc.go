// Package vip puts addresses on an interface of this host and takes them off again, for hooks: an address that is always on
// the leader. It tells the neighbours whose it is now, and asks them first, if it is told to, whether it is somebody's.
//
//	address.go   what may be asked for: words to addresses (pure)
//	arp.go, ndp.go   the frames, built and read (pure)
//	link.go      the interface and its addresses, by netlink
//	wire.go      a packet socket
//	vip.go       Add and Remove: everything is looked at before anything is changed
//	probe.go     who else answers
//	rota.go      which address the neighbours on a port are told of next, and when: pace, rounds, rivals (pure)
//	announce.go  the announcements at once, and what an announcer is told
//	announcer.go the rest of them, by another process, for as long as a leadership lasts
//	gather.go    all that one run of a hook adds has one announcer
//	kept.go      Kept: addresses that this host has for as long as it leads, for the keeper; keep.go: how they are kept, and go
//	keeping.go   when they are put back, and when they are lost (pure)
//	client.go   the segment that has a client of a dead host ask again (pure); tickle.go: who the clients are, and how they are asked
//	fits.go, rights.go   what can be said before
//
// That process is in a process group of its own and has the environment of the hook that started it. By these marks
// package hookrun finds it, and ends it before the lose-leadership hook starts.
package vip
