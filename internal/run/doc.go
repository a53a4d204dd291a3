// Package run is the life of one process group: how a command is started and read, how it is
// ended, and how it is told from another that has its number later. Hooks, checks, questions
// and guards use it. What is run, why, and until when, they decide.
package run
