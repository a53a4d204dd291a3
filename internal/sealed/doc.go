// Package sealed is the port to the other hosts, on a transport.LAN: nothing goes over it in
// clear, and nothing is taken from it that was. Frames, gossip, streams and tethers are
// sealed between hosts that share a key. Above it nobody knows.
//
// It drives a session.Table with a clock, a timer, a lock and the sockets of the LAN
// below, and decides nothing.
package sealed
