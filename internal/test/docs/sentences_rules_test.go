package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A rule is one thing that makes readers stumble.
type rule struct {
	name   string
	except []string                // the pages that speak of other programs, in their words
	finds  func(s sentence) string // what offends; empty: nothing
}

// longest is the number of words that a sentence may have.
const longest = 30

var rules = []rule{
	{name: "length", finds: func(s sentence) string {
		if n := s.words(); n > longest {
			return fmt.Sprintf("%d words", n)
		}
		return ""
	}},
	{name: "double negation", finds: doubleNegation},
	{name: "whoever", finds: pattern(`(?i)\bwho(?:m|so)?ever\b`)},
	{name: "nobody that", finds: pattern(`(?i)\b(?:nobody|no one|nothing|none|everybody|anybody|everything|anything|all|that) (?:that|who|which)\b`)},
	{name: "what … that", finds: whatAsActor},
	{name: "word", finds: word(map[string]string{
		"coordinators?":         "leader",
		"slaves?":               "follower",
		"reigns?":               "leadership",
		"seats?":                "leadership",
		"hurdles?":              "precondition",
		"bars":                  "ineligible",
		"contests?":             "round",
		"namesakes?":            "duplicate id",
		"tethers?":              "liveness stream",
		"(?i:a|its|the) wills?": "death notice",
		"holders":               "lease clients",
		"(?:debts?|owe[sd]?)":   "pending lose",
		"leash(?:es)?":          "deadline",
		"sane":                  "valid",
		"aside":                 "quarantine",
		"partitioned":           "isolated",
		"packets":               "frame, datagram",
		"resign(?:s|ed)?":       "step down",
		"demote[sd]?":           "step down",
	})},
	{name: "word of others", except: []string{"docs/switching.md", "docs/figures.md", "deploy/examples/keepalived-wrapper/README.md",
		"internal/keepalived", "internal/cli/as.go"},
		finds: word(map[string]string{
			"masters?":        "leader",
			"primar(?:y|ies)": "leader",
			"standbys?":       "follower",
		})},
}

// offences are what the rules find in a sentence of a page.
func offences(path string, s sentence) []string {
	var all []string
	for _, r := range rules {
		if slices.ContainsFunc(r.except, func(of string) bool { return path == of || strings.HasPrefix(path, of+"/") }) {
			continue
		}
		if found := r.finds(s); found != "" {
			all = append(all, r.name+": "+found)
		}
	}
	return all
}

func pattern(expression string) func(sentence) string {
	re := regexp.MustCompile(expression)
	return func(s sentence) string { return re.FindString(s.plain) }
}

// word finds words of the list. Those of frames are in capitals, and are none.
func word(list map[string]string) func(sentence) string {
	var expressions []string
	for of := range list {
		expressions = append(expressions, of)
	}
	slices.Sort(expressions)
	any := regexp.MustCompile(`(?:^|[^\w-])(` + strings.Join(expressions, "|") + `)(?:$|[^\w-])`)
	return func(s sentence) string {
		m := any.FindStringSubmatch(uncapital(s.plain))
		if m == nil {
			return ""
		}
		for _, of := range expressions {
			if regexp.MustCompile("^(?:" + of + ")$").MatchString(m[1]) {
				return m[1] + ", say " + list[of]
			}
		}
		return m[1]
	}
}

// uncapital is a text whose first word is written as within a sentence.
func uncapital(text string) string {
	if len(text) > 1 && unicode.IsLower(rune(text[1])) {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

var (
	negation = regexp.MustCompile(`\b(?:not|no|never|none|nobody|nothing|nowhere|neither|cannot|without|[a-z]+n't)\b`)
	clause   = regexp.MustCompile(`[,;:()–—]|\b(?:and|or|but|nor)\b`)
	// what looks like a negation and denies nothing
	denial = regexp.MustCompile(`\bno longer\b|\bnot only\b|\bno (?:more|less|later|sooner|earlier) than\b|\b(?:whether )?or not\b|\bno-[a-z]+`)
)

// doubleNegation finds two negations in one clause, and a negation that an "unless" takes back. Denials side by side, "no
// database, no etcd", are read once.
func doubleNegation(s sentence) string {
	text := denial.ReplaceAllString(strings.ToLower(s.plain), "")
	for part := range splitSeq(clause, text) {
		if found := negation.FindAllString(part, -1); len(found) > 1 {
			return strings.Join(found, " … ")
		}
	}
	if found := negation.FindString(text); found != "" && strings.Contains(text, "unless ") {
		return found + " … unless"
	}
	return ""
}

func splitSeq(at *regexp.Regexp, text string) func(func(string) bool) {
	return slices.Values(at.Split(text, -1))
}

var (
	actor = regexp.MustCompile(`^(?:[Ww]hat|[Ww]ho)\b[^,]*|[;:] who\b[^,]*`)
	apart = regexp.MustCompile(`\bwhat\b(?: [\w'-]+){1,6} that\b`)
)

// whatAsActor finds a sentence whose actor is "what …", and a "what … that". A question may begin so.
func whatAsActor(s sentence) string {
	if strings.HasSuffix(strings.TrimRight(s.plain, `"')”`), "?") {
		return ""
	}
	found := apart.FindString(s.plain)
	if found == "" && !s.cell && s.words() > label {
		found = actor.FindString(s.plain)
	}
	if words := strings.Fields(found); len(words) > 6 {
		found = strings.Join(words[:6], " ") + " …"
	}
	return found
}

func TestRulesFindWhatOffends(t *testing.T) {
	find := func(text string) string {
		var all []string
		for _, s := range sentences(text) {
			all = append(all, offences("a.md", s)...)
		}
		return strings.Join(all, ", ")
	}
	for text, want := range map[string]string{
		strings.Repeat("word ", 31):                            "length: 31 words",
		strings.Repeat("word ", 30):                            "",
		"Nobody is granted what is not on disk.":               "double negation: nobody … not",
		"It does not start unless a key is there.":             "double negation: not … unless",
		"No database, no etcd, no Kubernetes.":                 "",
		"It neither votes nor leads and has no state.":         "",
		"It is no longer there, whether or not it runs.":       "",
		"`not` is no negation.":                                "",
		"Whoever asks is answered.":                            "whoever: Whoever",
		"Nobody that asks is told.":                            "nobody that: Nobody that",
		"It ends all that runs there.":                         "nobody that: all that",
		"What an agent starts is ended.":                       "what … that: What an agent starts is ended.",
		"what the last run left has not ended":                 "what … that: what the last run left has …",
		"What is an agent that leads?":                         "",
		"It says what a host has that leads.":                  "what … that: what a host has that",
		"The key is shared: who has it is a member of it.":     "what … that: : who has it is a …",
		"| name | what a host has while it leads |":            "",
		"The coordinator sends COORDINATOR.":                   "word: coordinator, say leader",
		"A will is sent. Hurdles remain.":                      "word: A will, say death notice, word: hurdles, say precondition",
		"The keeper will send it.":                             "",
		"The master is another program's word.":                "word of others: master, say leader",
		"A voter refuses a claim that is below its own epoch.": "",
	} {
		if got := find(text); got != want {
			t.Errorf("%q: found %q, expected %q", text, got, want)
		}
	}
	master := sentences("The master is another program's word.")[0]
	if got := offences("docs/switching.md", master); len(got) > 0 {
		t.Errorf("docs/switching.md: found %q", got)
	}
}
