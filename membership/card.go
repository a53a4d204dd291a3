package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The card that each host shows of itself in its own sessions (S16). Its layout is in protocol 10.2. Who it is, in which life and
// where, its session proves. One encoding exists for each content: parsing refuses unknown versions and flags, names and settings of
// other characters and any byte too few. Additions come at the end, where an older program ignores them; any other change of the
// format needs a new version.
const (
	cardVersion = 1
	cardHeader  = 18
	maxName     = 63

	flagLeaving  = 1 << 0
	flagDraining = 1 << 1
	flagWitness  = 1 << 2
	flagObserver = 1 << 3
	flagSettled  = 1 << 4
	knownFlags   = flagLeaving | flagDraining | flagWitness | flagObserver | flagSettled
)

// MaxSettings bounds Member.Settings, in bytes: with the longest name and reason a card has 308.
const MaxSettings = 160

// appendCard encodes what m says of itself. checkCard(m) must hold.
func appendCard(b []byte, m Member) []byte {
	b = binary.BigEndian.AppendUint16(append(b, cardVersion), m.Priority)
	b = append(b, flagsOf(m), m.WireMin, m.WireMax)
	b = binary.BigEndian.AppendUint32(b, m.ConfigHash)
	b = binary.BigEndian.AppendUint64(b, m.Jobs)
	b = append(append(b, byte(len(m.Name))), m.Name...)
	b = append(append(b, byte(len(m.Settings))), m.Settings...)
	if !m.InMaintenance {
		return append(b, 0)
	}
	return append(append(b, byte(1+len(m.Reason))), m.Reason...)
}

func flagsOf(m Member) byte {
	var flags byte
	if m.Leaving {
		flags |= flagLeaving
	}
	if m.Draining {
		flags |= flagDraining
	}
	if m.Settled {
		flags |= flagSettled
	}
	switch m.Role {
	case Witness:
		flags |= flagWitness
	case Observer:
		flags |= flagObserver
	}
	return flags
}

// parseCard is the inverse of appendCard. The member has neither id, life nor address. It keeps no reference to b.
func parseCard(b []byte) (m Member, err error) {
	if len(b) < cardHeader {
		return m, fmt.Errorf("card has %d bytes; expected %d at least", len(b), cardHeader)
	}
	if b[0] != cardVersion {
		return m, fmt.Errorf("card version is %d; expected %d", b[0], cardVersion)
	}
	name, rest, ok := cutText(b[cardHeader:])
	settings, rest, ok2 := cutText(rest)
	if !ok || !ok2 || len(rest) == 0 {
		return m, errors.New("card ends before its name and its settings do")
	}
	be := binary.BigEndian
	m = Member{Name: name, Priority: be.Uint16(b[1:]), WireMin: b[4], WireMax: b[5], ConfigHash: be.Uint32(b[6:]), Jobs: be.Uint64(b[10:]),
		Settings: settings}
	if err := errors.Join(m.setFlags(b[3]), m.setMaintenance(rest)); err != nil {
		return Member{}, err
	}
	if err := checkCard(m); err != nil {
		return Member{}, err
	}
	return m, nil
}

// cutText takes a text with its length before it off the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	end := 1 + int(b[0])
	return string(b[1:end]), b[end:], true
}

func (m *Member) setFlags(flags byte) error {
	if flags&^knownFlags != 0 {
		return fmt.Errorf("card flags %#02x are not known", flags&^knownFlags)
	}
	m.Leaving, m.Draining, m.Settled = flags&flagLeaving != 0, flags&flagDraining != 0, flags&flagSettled != 0
	switch flags & (flagWitness | flagObserver) {
	case flagWitness:
		m.Role = Witness
	case flagObserver:
		m.Role = Observer
	case flagWitness | flagObserver:
		return errors.New("card says both witness and observer")
	}
	return nil
}

// setMaintenance reads what follows the settings.
func (m *Member) setMaintenance(b []byte) error {
	if b[0] == 0 {
		return nil
	}
	length := int(b[0]) - 1
	if len(b) < 1+length {
		return errors.New("card ends before its reason does")
	}
	m.InMaintenance, m.Reason = true, string(b[1:1+length])
	return nil
}

func checkCard(m Member) error {
	if m.WireMin == 0 || m.WireMin > m.WireMax {
		return fmt.Errorf("wire versions %d to %d are no range", m.WireMin, m.WireMax)
	}
	if err := checkSettings(m.Settings); err != nil {
		return err
	}
	if err := CheckReason(m.Reason); err != nil {
		return err
	}
	return CheckName(m.Name)
}

// labelCharacters are safe in a log, a metric label, a terminal and even under a
// shell's eval.
const labelCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func checkSettings(settings string) error {
	if len(settings) > MaxSettings {
		return fmt.Errorf("settings have %d bytes; expected at most %d", len(settings), MaxSettings)
	}
	if strings.Trim(settings, labelCharacters+"= ") != "" {
		return fmt.Errorf("settings %q have characters other than A-Z a-z 0-9 . _ = - and space", settings)
	}
	return nil
}

// MaxReason bounds Member.Reason, in bytes.
const MaxReason = 64

// CheckReason says what a reason of maintenance may be, by our own operator and by others
// alike: at most 64 letters, digits, blanks and harmless marks, so that it is safe in a
// log, on a terminal and in a table.
func CheckReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("reason has %d characters; expected at most %d", len(reason), MaxReason)
	case strings.Trim(reason, labelCharacters+" ,:/+=@#()") != "":
		return fmt.Errorf("reason %q has characters other than A-Z a-z 0-9 . _ - , : / + = @ # ( ) and blank", reason)
	case strings.TrimSpace(reason) != reason:
		return fmt.Errorf("reason %q begins or ends with a blank", reason)
	}
	return nil
}

// ErrName is returned for a name that nobody may have.
var ErrName = errors.New("no name")

// CheckName says what a host may be called, by its own configuration and by
// others alike: 1 to 63 letters, digits, dots, dashes and underscores, first a
// letter or a digit. So a name is safe anywhere, and never taken for an option
// or a directory: nobody behind us needs to escape it.
func CheckName(name string) error {
	switch {
	case len(name) < 1 || len(name) > maxName:
		return fmt.Errorf("%w: it has %d characters; expected 1 to %d", ErrName, len(name), maxName)
	case strings.Trim(name, labelCharacters) != "":
		return fmt.Errorf("%w: %q has characters other than A-Z a-z 0-9 . _ -", ErrName, name)
	case strings.ContainsAny(name[:1], "._-"):
		return fmt.Errorf("%w: %q begins with a mark; expected a letter or a digit", ErrName, name)
	}
	return nil
}
