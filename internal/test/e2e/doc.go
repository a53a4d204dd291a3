// Package e2e tests the real binary on several hosts. It holds tests only.
//
// A host is a network namespace with one cable, a veth pair, to a switch. The
// switch is a namespace too, with a bridge in it: so the machine's own firewall
// has no say (bridged packets pass its FORWARD chain where br_netfilter is
// loaded), its own interfaces do not change, and nothing collides.
//
//	be<pid>x1s                    be<pid>x1h1
//	┌──────────────┐              ┌────────────────────────┐
//	│ br0 ── p1 ───┼── veth ──────┼─ eth0 10.78.1.1  agent │
//	│   └─── p2 ───┼── veth ──┐   └────────────────────────┘
//	└──────────────┘          │   be<pid>x1h2
//	                          └───┼─ eth0 10.78.1.2  agent │
//
// All hosts share one kernel, hence one file for the hooks to write to: the
// order of its lines is the true order of what happened on different hosts, and
// no clock is compared. A verdict over these lines ends every test.
//
// The tests need root, ip and network namespaces, and some need nft; without,
// they are skipped and say what is missing. By default the quick ones run, within
// a minute; BULLY_E2E=all runs the others too, and BULLY_E2E=long also those that
// take minutes. BULLY_E2E_BINARY names a binary to test instead of the one that is
// built from these sources.
package e2e
