// Package e2e tests the real binary on several hosts. It holds tests only.
//
// Each test has a LAN of its own, of network namespaces (package netlab): be<pid>-1-h1,
// be<pid>-1-h2 and so on, with addresses 10.78.1.1 and on, and be<pid>-1-lan, the switch.
//
// All hosts share one kernel, hence one file for the hooks to write to: the
// order of its lines is the true order of what happened on different hosts, and
// no clock is compared. A verdict over these lines ends every test.
//
// The tests need root, ip and network namespaces, and some need nft; without,
// they are skipped and say what is missing. By default the quick ones run, within
// a minute; BULLY_E2E=all runs the others too, and BULLY_E2E=long also those that
// take minutes. BULLY_E2E_BINARY names a binary to test instead of the one that is
// built from these sources. BULLY_E2E_UNGUARDED names one from before there were defences:
// on it each attack of TestAttacksWorkWithoutDefence is seen to work. BULLY_SOAK is how long
// TestTrustUnderChaos goes on, such as 8h. BULLY_E2E=figures takes figures, which a busy machine spoils; BULLY_ROUNDS is how often
// each fault is tried for them, and BULLY_GAPS a file that gets each gap of a client. Logs, states, records and hook lines of each test that fails are kept
// in the directory that BULLY_E2E_KEEP names, by default bully-agent-failed beside the other temporary files.
package e2e
