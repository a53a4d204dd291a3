package key

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/bully-agent/bully-agent/internal/access"
)

// A file has one key a line: the word below, the key's id, the day on which it was made,
// and its 32 bytes as 43 characters of base64url (RFC 4648, section 5) without padding. The
// first key begins sessions, all are accepted. Empty lines, and those that begin with #,
// mean nothing; lines may end in CRLF.
//
//	bully-key-1 4f1c9a02 2026-11-22 <43 characters>

const (
	word     = "bully-key-1"
	anyWord  = "bully-key-"
	dateForm = "2006-01-02"

	secretChars = 43

	// maxFile bounds a file: four keys have 300 bytes, comments may have the rest.
	maxFile = 16 << 10

	// maxWrong bounds the lines about one file, which may be anything. Arbitrary.
	maxWrong = 8
)

const header = "# Whoever has this file is a member of the cluster. See bully-agent key --help.\n"

// encoding is strict: one key has one form, so that a slip in the last character is found.
var encoding = base64.RawURLEncoding.Strict()

// Error is one thing wrong with a key's file, in one line that a person can act on. It tells
// nothing of a secret.
type Error struct {
	File     string
	Line     int // from 1; 0: the file as a whole
	Found    string
	Expected string
	Mend     string // a command

	cause error
}

// Error is "/etc/bully-agent/key:2: 31 bytes: expected 32; hint: …".
func (e *Error) Error() string {
	where := shown(e.File)
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	text := where + ": " + e.Found + ": expected " + e.Expected
	if e.Mend != "" {
		text += "; hint: " + e.Mend
	}
	return text
}

// Unwrap gives the reason, if it is another error.
func (e *Error) Unwrap() error { return e.cause }

// Anothers is the file, or the directory on the way to it, that is of another owner, if that is what is wrong; else "".
func (e *Error) Anothers() string {
	var open *access.Error
	if errors.As(e.cause, &open) && open.Owner {
		return open.Part
	}
	return ""
}

// ExitCode is the process's exit code: 7, configuration invalid.
func (e *Error) ExitCode() int { return 7 }

// Format is the text of a file with these keys.
func (r Ring) Format() []byte {
	text := []byte(header)
	for _, k := range r {
		text = fmt.Appendf(text, "%s %s %s %s\n", word, k.ID, k.Made.UTC().Format(dateForm), encoding.EncodeToString(k.Secret[:]))
	}
	return text
}

// Parse reads the text of a file, whose name is for messages. The error joins an *Error for
// each line that is wrong; no Ring comes with it.
func Parse(file string, text []byte) (Ring, error) {
	if len(text) > maxFile {
		return nil, &Error{File: file, Found: fmt.Sprintf("more than %d bytes", maxFile), Expected: "one to four keys, a line each",
			Mend: copyCommand(file)}
	}
	var ring Ring
	var problems []error
	lines := map[ID]int{}
	wrong := func(line int, err *Error) {
		err.File, err.Line = file, line
		problems = append(problems, err)
		if len(problems) > maxWrong {
			*err = Error{File: file, Line: line, Found: "more that is wrong, and was not read", Expected: "one to four keys, a line each", Mend: copyCommand(file)}
		}
	}
	number := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if number++; len(problems) > maxWrong {
			break
		}
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		k, err := parseLine(file, line)
		switch {
		case err != nil:
			wrong(number, err)
		case lines[k.ID] > 0:
			wrong(number, &Error{Found: fmt.Sprintf("key %s again, which is on line %d", k.ID, lines[k.ID]), Expected: "each key once", Mend: deleteCommand(file, number)})
		case len(ring) == MaxKeys:
			wrong(number, &Error{Found: "a fifth key", Expected: "at most four", Mend: deleteCommand(file, number)})
		default:
			lines[k.ID] = number
			ring = append(ring, k)
		}
	}
	if len(problems) == 0 && len(ring) == 0 {
		return nil, &Error{File: file, Found: "no key in it", Expected: "one to four, a line each", Mend: "rm " + Quoted(file) + "; " + HowToGet(file)}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return ring, nil
}

// parseLine reads one line; the error has neither file nor line yet.
func parseLine(file, line string) (Key, *Error) {
	const form = word + ", the id, the day and the key, with a space between"
	again := copyCommand(file)
	fields := strings.Fields(line)
	switch {
	case fields[0] != word && strings.HasPrefix(fields[0], anyWord) && isOf(fields[0][len(anyWord):], "0123456789"):
		return Key{}, &Error{Found: "a key of form " + fields[0][len(anyWord):], Expected: "form 1, which this version knows", Mend: "upgrade bully-agent here; or " + again}
	case fields[0] != word:
		return Key{}, &Error{Found: "a line that begins with something else", Expected: form, Mend: again}
	case len(fields) < 4:
		return Key{}, &Error{Found: fmt.Sprintf("a line that ends after %d of 4 parts", len(fields)), Expected: form, Mend: again}
	case len(fields) > 4:
		return Key{}, &Error{Found: fmt.Sprintf("%d parts", len(fields)), Expected: "4: " + form, Mend: again}
	}
	id, err := ParseID(fields[1])
	if err != nil {
		return Key{}, &Error{Found: "an id that is none", Expected: "eight hexadecimal digits", Mend: again}
	}
	made, err := time.Parse(dateForm, fields[2])
	if err != nil {
		return Key{}, &Error{Found: "a day that is none", Expected: "one such as 2026-11-22", Mend: again}
	}
	k := Key{Made: made}
	if found := readSecret(&k.Secret, fields[3]); found != "" {
		return Key{}, &Error{Found: found, Expected: "32 bytes as 43 characters of base64url", Mend: again}
	}
	if k.Secret == ([Size]byte{}) {
		return Key{}, &Error{Found: "a key of zeros", Expected: "32 random bytes", Mend: again}
	}
	if k.ID = IDOf(k.Secret); k.ID != id {
		return Key{}, &Error{Found: "id " + id.String(), Expected: k.ID.String() + ", which follows from the key: one of the two has a slip", Mend: again}
	}
	return k, nil
}

const (
	hexChars = "0123456789abcdefABCDEF"
	urlChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	stdChars = urlChars + "+/="
)

// readSecret says what was found, without telling it, if it is no secret.
func readSecret(secret *[Size]byte, text string) (found string) {
	if raw, err := encoding.DecodeString(text); err == nil && len(raw) == Size {
		copy(secret[:], raw)
		return ""
	}
	switch {
	case len(text) == 2*Size && isOf(text, hexChars):
		return fmt.Sprintf("%d hexadecimal digits", len(text))
	case isOf(text, urlChars) && len(text) == secretChars:
		return "43 characters, the last of which cannot be the end of 32 bytes"
	case isOf(text, urlChars):
		return fmt.Sprintf("%d bytes, in %d characters", len(text)*6/8, len(text))
	case isOf(text, stdChars):
		return "base64 of another alphabet"
	}
	return fmt.Sprintf("%d bytes of text that is no base64url", len(text))
}

// isOf reports whether the text has characters of the set only.
func isOf(text, set string) bool { return text != "" && strings.Trim(text, set) == "" }

// ParseID reads what ID.String gives; capitals are taken, too.
func ParseID(text string) (ID, error) {
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) != 8 {
		return 0, fmt.Errorf("%q is no id of a key: expected eight hexadecimal digits", text)
	}
	return ID(n), nil
}

// HoldsSecret reports whether there is a line of a key's file in a text.
func HoldsSecret(text string) bool { return keyLine.MatchString(text) }

var keyLine = regexp.MustCompile(anyWord + `[0-9]+\s+[0-9A-Fa-f]{8}\s`)

// LooksLikeSecret reports whether a text that should be a path, or anything else, is or holds
// a key: pasted where others could read it.
func LooksLikeSecret(text string) bool {
	if HoldsSecret(text) || strings.HasPrefix(strings.TrimSpace(text), anyWord) { // also with a part damaged, which is a key except for that
		return true
	}
	if strings.ContainsAny(text, "/.") && !strings.ContainsAny(text, "+=") {
		return false // a path
	}
	bare := strings.TrimRight(text, "=")
	return len(bare) == 2*Size && isOf(bare, hexChars) || len(bare) == secretChars && isOf(bare, stdChars)
}

// The commands that mend.

func copyCommand(file string) string {
	return fmt.Sprintf("take it from a host whose file is right: scp -p HOST:%s %s", Quoted(file), Quoted(file))
}

func deleteCommand(file string, line int) string {
	return fmt.Sprintf("sed -i %dd %s", line, Quoted(file))
}

// DefaultPath is root's.
const DefaultPath = "/etc/bully-agent/key"

// HowToGet is what there is to do where no key is. A second one on another host would be of
// another cluster, so nothing else may advise to make one.
func HowToGet(file string) string {
	generate, quoted := "bully-agent key generate", Quoted(file)
	if file != DefaultPath {
		generate += " --key " + quoted
	}
	return fmt.Sprintf("on the first host: %s; on the others: scp -p FIRST:%s %s", generate, quoted, quoted)
}

// OneForAll is what there is to do where two hosts have different keys. It never has a key
// sent to the other host, which may be anybody's.
func OneForAll(file string) string {
	file = Quoted(file)
	return fmt.Sprintf("if it is one of yours, the host that came later takes the first one's: scp -p FIRST:%s %s && bully-agent reload", file, file)
}

// Quoted is a path as a shell takes it.
func Quoted(path string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:@%,="
	if isOf(path, plain) {
		return path
	}
	if strings.IndexFunc(path, isHidden) >= 0 { // as bash and zsh take it, on one line
		inner := strconv.QuoteToASCII(path)
		inner = strings.ReplaceAll(inner[1:len(inner)-1], `\"`, `"`)
		return "$'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// shown is a path on one line.
func shown(path string) string {
	if strings.IndexFunc(path, isHidden) >= 0 {
		return strconv.Quote(path)
	}
	return path
}

func isHidden(r rune) bool { return !unicode.IsPrint(r) }
