// Package record keeps what a Node was told, so that it can be told again: the election
// is pure, so its inputs are its history.
//
// A Ring takes each event with its time, and of the effects that came out their kinds and
// a checksum. It is a chain of segments; each begins with a picture of the Node, so that
// the oldest can go. A Record is what comes out of a Ring as a file, and a Player steps a
// restored Node through it and says where it does otherwise. A Timeline joins the records
// of several hosts.
//
// All of it is pure: times are those of the record, and what is read may be anything.
//
// # The file
//
//	bully-agent record 1\n          the format
//	{"version": …, "schema": …}\n   who recorded it, a Header in JSON
//	'S' length crc32c bytes         a segment, numbers of 4 bytes, big-endian; any number of them
//	'E' count                       the end: how many segments there were
//
// A segment is a start, as package pack writes it, and then one step after another:
//
//	time      varint, ns since the step before
//	event     its number in eventTypes, and its fields; of a frame what differs from the last alike
//	effects   for each its number in effectTypes, for frames kind and run length, for what is rare its text; then 0
//	crc32c    4 bytes, of all that is in the effects; none if there were none
package record
