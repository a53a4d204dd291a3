// Package hostile has the names that a host could give itself to deceive who reads
// them: people at terminals, shells, log readers, parsers and file systems. Tests of
// whatever shows the words of other hosts, or hands them to a process, share the table.
package hostile

import "strings"

// Names are at least 200 texts, none of which is a name. All are at most 512 bytes,
// as much as gossip carries, except for one that is a byte longer.
func Names() []string {
	names := []string{"", ".", "..", "...", "-", "--", "-rf", "--help", "-n", "_", "_a", ".ssh", "~", "~root", "a/b", "/", "//", "/etc/passwd",
		"../../etc/passwd", "..\\..\\x", "a\\", "C:", "con:", "a b", " a", "a ", "a=b", "=", "PATH=/tmp", "LD_PRELOAD=/tmp/x.so", "a,b", "a;b", "a&b", "a|b",
		"a>b", "a<b", "a'b", "a\"b", "a`b`", "$(id)", "${IFS}", "$HOME", "$((1))", "`id`", "!!", "a!b", "a#b", "#", "a%b", "%s%n", "%00", "a*", "?", "[a]",
		"{a,b}", "(a)", "a^b", "a@b", "a+b", "a:b", "é", "ä", "ß", "日本", "🙂", "<script>alert(1)</script>", "<b>", "&lt;", "-->", "]]>",
		"{{.}}", "${jndi:ldap://x}", "' OR 1=1 --", "\"; DROP TABLE hosts;", "a\nb", "\n", "a\r\nb", "a\rb", "\t", "a\tb", "\v", "\f",
		"alpha\n2026-11-22T00:00:00.000Z [INFO]  became leader", "alpha\n<3>became leader", "a\n\n\n", "alpha\tleader", "a\x00b", "\x00",
		strings.Repeat("a", 64), strings.Repeat("a", 255), strings.Repeat("a", 512), strings.Repeat("a", 513), strings.Repeat("é", 256), strings.Repeat("\n", 512),
		"\xff", "a\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "\xe2\x28\xa1", "a\x80b", "\xfe\xff",
	}
	// What a terminal takes for an order.
	for _, order := range []string{"\x1b[2J", "\x1b[31m", "\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bc", "\x1b[1A", "\x1b[?25l", "\x1bP1$r\x1b\\",
		"\x1b[6n", "\x1b(0", "\u009b31m", "\u009d0;t\u009c", "\x07", "\x08\x08\x08", "\x7f", "\x0e", "\x0f", "\x18", "\x1a", "\u0085", "\u0090"} {
		names = append(names, order, "alpha"+order)
	}
	// What cannot be seen, turns the text around, or begins a line elsewhere.
	for _, mark := range []string{"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2028", "\u2029", "\u2066", "\u2067",
		"\u2068", "\u2069", "\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u3164", "\ufeff", "\ufe0f", "\U000e0001", "\U000e0061", "\u00a0", "\u2003", "\u3000"} {
		names = append(names, "al"+mark+"pha", mark)
	}
	// What looks like alpha: Cyrillic, Greek, full width, mathematical, with a mark.
	names = append(names, "аlpha", "alphа", "αlpha", "ａlpha", "𝐚lpha", "ⅼeader", "lеader", "a\u0301lpha", "a\u0335lpha", "ɑlpha", "аӏрһа", "al‐pha", "al−pha", "al·pha",
		"１", "٣", "beta․", "beta‥", "beta／x", "beta＼x", "beta；x", "‹b›", "ｂeta", "𝓫eta", "ƅeta")
	return names
}
