// Package paper runs the election algorithms as their papers describe them and
// counts what they send (protocol 5): the classic Bully of Garcia-Molina as in
// the textbooks, the enhanced Bully of Murshed and Allen, and the smallest-id
// algorithm of Kabashi, Zeqiri and Zabeli. The enhanced one is known here only
// by the latter's paraphrase.
//
// A run is a value: a network that loses nothing, takes one unit of time for
// every message, and delivers in the order of sending. There are no epochs,
// acknowledgements, heartbeats, leases or staggers; those belong to the real
// Node (package election), whose counts a caller adds to the tables and to the
// chart. No count comes from a formula: what is printed was sent.
//
// Nodes are 1 to n. The classic and the enhanced Bully want the highest id, the
// smallest-id algorithm the lowest, so the leader that fails is n or 1.
package paper
