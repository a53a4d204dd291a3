// Package resourcerun carries out what hooks.Lanes decide about resources, in the keeper: this host
// gets them, keeps them for as long as it leads, and gives them up.
//
//	hands.go    the effects of Lanes, and what comes of them
//	tenant.go   one resource: who may call it, until when, and what if it hangs
//	thing.go    what a resource can be
//	command.go  a command that is kept running, by a holder of its own (package holder)
//
// Addresses are package vip's, units package systemd's.
package resourcerun
