// Package httpd is the door to the network: a TCP listener, with TLS or without, that serves what
// only reads, and what it costs at most. What is said there is package control's.
//
// The agent opens the port and reads the certificate; a process of its own serves them (package
// reader), at what the host has left. So connections are bounded in all and by source, and what is
// too much is closed at once; requests have no body, are read in seconds and answered in seconds. So
// many connections, handshakes and requests a second are served, and no more, however many ask.
package httpd
