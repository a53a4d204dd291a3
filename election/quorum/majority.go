// Package quorum knows the rules among voters: who may vote, and what is a majority
// of them. It decides from values alone; package election asks it, and writes down
// and sends what follows.
//
// Any two majorities of one set of voters share a voter, and so do a majority
// of a set and one of the same set with one voter more or less. That is all
// that quorum mode rests on.
package quorum

// Size is the least number of voters out of n that is a majority.
func Size(n int) int { return n/2 + 1 }

// Has reports whether those for whom in says yes are a majority of the voters,
// each of whom is named once.
func Has[ID comparable](voters []ID, in func(ID) bool) bool {
	count := 0
	for _, id := range voters {
		if in(id) {
			count++
		}
	}
	return count >= Size(len(voters))
}
