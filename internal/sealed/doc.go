// Package sealed wraps a transport.LAN, so that nothing goes over it in clear and
// nothing is taken from it that was: frames, gossip, streams and tethers are sealed
// between hosts that share a key. Above it nobody knows.
//
// It drives a session.Table with a clock, a timer, a lock and the sockets of the LAN
// below, and decides nothing.
package sealed
