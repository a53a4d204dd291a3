package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bully-agent/bully-agent/internal/key"
)

// scrubber takes keys out of what is about to leave the host: those that are known, however written, wherever they are, and
// what looks like one in a text.
type scrubber struct{ known [][]byte }

const leftOut = "[left out: it looks like a key]"

func newScrubber(ring key.Ring) *scrubber {
	s := &scrubber{}
	for _, k := range ring {
		hexed := hex.EncodeToString(k.Secret[:])
		for _, text := range []string{string(k.Secret[:]), hexed, strings.ToUpper(hexed), base64.RawStdEncoding.EncodeToString(k.Secret[:]),
			base64.RawURLEncoding.EncodeToString(k.Secret[:])} {
			s.known = append(s.known, []byte(text))
		}
	}
	return s
}

var (
	// keyFileLine is a line of a key's file, whole or cut short.
	keyFileLine = regexp.MustCompile(`(?i)bully-key-[0-9]+[ \t]+[^\r\n"]*`)
	// keyWord is what could be 32 bytes in base64 or hexadecimal: as a whole word of that length, or a longer one.
	keyWord = regexp.MustCompile(`[A-Za-z0-9+/_-]{43,}={0,2}`)
)

func (s *scrubber) scrub(text []byte) []byte {
	for _, secret := range s.known {
		text = bytes.ReplaceAll(text, secret, []byte(leftOut))
	}
	if !utf8.Valid(text) {
		return text // a record: nothing was typed into that
	}
	text = keyFileLine.ReplaceAll(text, []byte(leftOut))
	return keyWord.ReplaceAllFunc(text, func(word []byte) []byte {
		if looksRandom(string(word)) {
			return []byte(leftOut)
		}
		return word
	})
}

// looksRandom: of paths and names of that length few have both cases and no mark between, or are hexadecimal.
func looksRandom(word string) bool {
	word = strings.TrimRight(word, "=")
	isHex := len(word) >= 2*key.Size && strings.Trim(strings.ToLower(word), "0123456789abcdef") == ""
	hasBoth := strings.IndexFunc(word, unicode.IsUpper) >= 0 && strings.IndexFunc(word, unicode.IsLower) >= 0
	return isHex || hasBoth
}

// secretsHere are the keys that this process may read: of the configuration, and of the agent that runs.
func (c *call) secretsHere() (all key.Ring) {
	var files []string
	if keys, err := c.client().Keys(c.Context.Context); err == nil {
		files = append(files, keys.File)
	}
	if cfg, err := c.configHere(); err == nil {
		files = append(files, cfg.Network.Key)
	}
	for _, file := range files {
		if ring, err := key.Read(file); file != "" && err == nil {
			all = append(all, ring...)
		}
	}
	return all
}
