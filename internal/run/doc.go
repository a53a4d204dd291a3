// Package run is the life of one command: how it is started and read, who belongs to it, how it
// is ended, how it is told from another that has its number later, and what is kept of its
// output. Hooks, checks, questions and holders use it. What is run, why, and until when, they
// decide; Watch takes it from them as times alone, and has no clock.
package run
