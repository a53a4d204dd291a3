package quorum

import (
	"math/bits"
	"testing"
)

// Two majorities of one set, and of two sets that differ by one voter, always
// share a voter: every pair of subsets of up to seven voters.
func TestMajoritiesOverlap(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for change := range 2 { // the second set has one voter less, or none
			all, fewer := uint(1)<<n-1, uint(1)<<(n-change)-1
			for a := range all + 1 {
				for b := range fewer + 1 {
					if isMajority(a, n) && n-change > 0 && isMajority(b, n-change) && a&b == 0 {
						t.Fatalf("majorities %b of %d and %b of %d share nobody", a, n, b, n-change)
					}
				}
			}
		}
	}
}

func isMajority(set uint, n int) bool {
	voters := make([]uint, n)
	for i := range voters {
		voters[i] = uint(i)
	}
	has := Has(voters, func(i uint) bool { return set>>i&1 == 1 })
	if has != (bits.OnesCount(set&(1<<n-1)) >= Size(n)) {
		panic("Has and Size disagree")
	}
	return has
}
