// Package reader has the process that answers the network, and what it answers from.
//
// Whoever asks over the network must not disturb the election: a TLS handshake costs milliseconds of a processor, and
// a page in a browser asks four times a second. So a process of its own serves the port, the reader: nobody's, without
// a right, at nice 10. It reads what the agent has written, and the agent never waits for it.
//
//	agent                                keeper                         reader
//	  Feed ── boards, a memory file ───────────────────────────────────▶│  serves the port
//	       ── "there is news" ─────────────────────────────────────────▶│
//	       ◀── questions, at most some a second ────────────────────────│
//	  the port and the read-only end of all that ─▶ Keep ── fork, exec ─▶│
//	                                             ◀── signs of life, log ─│
//
// The agent opens the port and reads the certificate, while it has its rights. It gives port, boards and socket to its
// keeper (Door), which starts the reader, reaps it and starts another (Keep): the agent itself can start nothing.
//
// A board has the latest answer to one kind of question, as the network may see it: what is not for the network is in
// no board. Two of them the agent writes when they change, and at least each second: what the host shows, and its events. The
// others it writes when it is asked. Each kind has a goroutine of its own, so that a disk that hangs holds up what needs
// the disk and nothing else. Until when this host leads is a word in memory, which the loop itself sets.
//
// A reader that hangs, dies or lies can do no more than not answer: it cannot write a board, start a process, open a file
// or a socket, or signal anybody. What it asks is bounded in number and size. A follower of events that is too
// slow finds a gap in their numbers, as at the agent's own socket.
package reader
