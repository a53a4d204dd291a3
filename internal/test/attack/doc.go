// Package attack is somebody on the LAN who wishes the cluster ill: it listens to all that is
// said, forges any sender, and repeats, changes and floods what it has heard. It is a program of
// the tests, and sends into the network namespaces that these made and nowhere else.
//
// What it can do, and by what means on a real LAN:
//
//   - hear everything (Tap): here a packet socket beside the switch's bridge, elsewhere a mirror
//     port, a hub, or the hosts' ARP caches poisoned. So it knows ids, nonces, sequence numbers and
//     epochs (Knowledge), and keeps whole lives (Tape).
//   - send as anybody (Gun): a raw socket writes the IP header itself, and a switch does not compare
//     a source address with the port that it comes from.
//   - open streams (Crowd), but only from addresses that it has: an answer to a forged SYN goes to
//     whom the address belongs.
//
// It does not answer ARP for others, nor forge RST: who can do that stops any traffic, sealed or
// not, and needs no agent for it.
//
// What is sent is made by pure functions of what is known and a seeded source of chance; Tap, Gun,
// Crowd and Campaign have the sockets and the clock. Every rate and every length has a bound, and
// nothing runs on after its context or its time has ended.
package attack
