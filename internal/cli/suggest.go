package cli

import (
	"strings"

	"github.com/xrash/smetrics"
)

// nearest is the word that a slip of the finger is most likely to have meant, or
// "" when none is near.
func nearest(word string, candidates []string) string {
	const longest = 40 // longer ones are no slip of any of ours
	if len(word) < 2 || len(word) > longest {
		return ""
	}
	word = strings.ToLower(word)
	// Two letters that changed places count as two. Of three letters one is left to be recognised by, or more.
	best, least := "", min(max(2, len(word)/3), len(word)/2)+1
	for _, c := range candidates {
		if strings.HasPrefix(c, word) {
			return c
		}
		if d := smetrics.WagnerFischer(word, c, 1, 1, 1); d < least {
			best, least = c, d
		}
	}
	return best
}
