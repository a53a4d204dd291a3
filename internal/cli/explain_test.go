package cli

import (
	"bytes"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
)

// alphaFollows is the situation that the documents show.
func alphaFollows() control.Explanation {
	return control.Explanation{Headline: "alpha does not lead: beta does, epoch 42, for 3h",
		Reasons: []control.Reason{{About: "part", OK: true, Text: "voter"}, {About: "roster", OK: true, Text: "roster agreed (3 of 3)"},
			{About: "disk", OK: true, Text: "disk writes"}, {About: "link", Text: "the link of this host is down"}},
		Then: []string{"priority 200 > 100: asks beta to hand over 1s after nothing of this is in the way"}}
}

// What explain prints to a terminal, with NO_COLOR and to a pipe.
func TestExplainGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var pipe bytes.Buffer
	outputs := map[string]*console{"colour": {outColour: true}, "plain": newConsole(nil, &pipe, &pipe)}
	for name, c := range outputs {
		var out bytes.Buffer
		c.out = &out
		if err := c.print(c.explainText(alphaFollows())); err != nil {
			t.Fatal(err)
		}
		golden(t, "explain."+name, out.String())
	}
}
