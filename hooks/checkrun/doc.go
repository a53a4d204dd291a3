// Package checkrun runs the checks of a host in the keeper: each in a goroutine of its own,
// never twice at a time, and at once when it is new. Of what they say only changes are told,
// so that a check which hangs, forks, floods or flaps delays nobody.
package checkrun
