package control

import (
	"fmt"
	"strings"
)

// Label is a member's name for people where its name alone does not tell which one is meant.
func Label(name, addr string) string { return name + " (" + addr + ")" }

// Labels says how to call each of the members: by its name, and by its address too where another has that name.
func Labels(members []Member) func(name, addr string) string {
	at := make(map[string]string, len(members)) // the first address of each name
	shared := make(map[string]bool)
	for _, m := range members {
		if first, met := at[m.Name]; met && first != m.Addr {
			shared[m.Name] = true
		} else {
			at[m.Name] = m.Addr
		}
	}
	return func(name, addr string) string {
		if shared[name] {
			return Label(name, addr)
		}
		return name
	}
}

// FirstLine cuts what is a line each, for where one has room: the first, and "; and 2 more" for what follows it.
func FirstLine(text string) (first, more string) {
	first, rest, isMore := strings.Cut(text, "\n")
	if isMore {
		more = fmt.Sprintf("; and %d more", 1+strings.Count(rest, "\n"))
	}
	return first, more
}
