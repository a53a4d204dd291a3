package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/wire"
)

// The meta that each member tells of itself, big endian (protocol 8):
//
//	 0   1  version = 3
//	 1  16  id
//	17   4  incarnation
//	21   4  nonce
//	25   2  priority
//	27   2  port, the one that memberlist has: both kinds of traffic share it
//	29   1  flags: 0 leaving, 1 draining, 2 witness, 3 observer, 4 settled
//	30   1  lowest wire version
//	31   1  highest wire version
//	32   4  config hash
//	36   4  cluster hash
//	40   1  length of the name
//	41   n  name, see CheckName
//	 …   1  length of the settings
//	 …   n  settings, [A-Za-z0-9._= -]{0,160}
//	 …   8  digest of its jobs
//	 …   1  0, or in maintenance 1 + length of the reason; left out: 0
//	 …   n  reason, see CheckReason
//	 …      what a later program adds; ignored
//
// One encoding exists for each content: parsing refuses unknown versions and
// flags, names and settings of other characters and any byte too few. Additions
// come after the digest; any other change of the format needs a new version,
// sent when all members read it. Versions 1, without settings, and 2, without the
// digest, were never released.
const (
	metaVersion = 3
	metaHeader  = 41
	metaDigest  = 8
	maxName     = 63
	maxMeta     = memberlist.MetaMaxSize // 512; memberlist panics above (P12), and ours has 338 at most

	flagLeaving  = 1 << 0
	flagDraining = 1 << 1
	flagWitness  = 1 << 2
	flagObserver = 1 << 3
	flagSettled  = 1 << 4
	knownFlags   = flagLeaving | flagDraining | flagWitness | flagObserver | flagSettled
)

// MaxSettings bounds Member.Settings, in bytes: gossip repeats it for each
// member.
const MaxSettings = 160

// appendMeta encodes what m says of itself. checkMeta(m) must hold.
func appendMeta(b []byte, m Member, cluster uint32) []byte {
	b = append(b, metaVersion)
	b = append(b, m.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Incarnation)
	b = binary.BigEndian.AppendUint32(b, m.Nonce)
	b = binary.BigEndian.AppendUint16(b, m.Priority)
	b = binary.BigEndian.AppendUint16(b, m.Addr.Port())
	b = append(b, flagsOf(m), m.WireMin, m.WireMax)
	b = binary.BigEndian.AppendUint32(b, m.ConfigHash)
	b = binary.BigEndian.AppendUint32(b, cluster)
	b = append(b, byte(len(m.Name)))
	b = append(b, m.Name...)
	b = append(b, byte(len(m.Settings)))
	b = append(b, m.Settings...)
	b = binary.BigEndian.AppendUint64(b, m.Jobs)
	if !m.InMaintenance {
		return b
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

// parseMeta is the inverse of appendMeta. The member has the port and no
// address. It keeps no reference to b.
func parseMeta(b []byte) (m Member, cluster uint32, err error) {
	const least = metaHeader + 1 + 1 + metaDigest // a name of one, and no settings
	if len(b) < least || len(b) > maxMeta {
		return m, 0, fmt.Errorf("meta has %d bytes; expected %d to %d", len(b), least, maxMeta)
	}
	if b[0] != metaVersion {
		return m, 0, fmt.Errorf("meta version is %d; expected %d", b[0], metaVersion)
	}
	name, rest, ok := cutText(b[metaHeader-1:])
	settings, rest, ok2 := cutText(rest)
	if !ok || !ok2 || len(rest) < metaDigest {
		return m, 0, errors.New("meta ends before its name, its settings and its digest do")
	}
	be := binary.BigEndian
	m = Member{
		ID:          wire.ID(b[1:17]),
		Incarnation: be.Uint32(b[17:]),
		Nonce:       be.Uint32(b[21:]),
		Priority:    be.Uint16(b[25:]),
		Addr:        netip.AddrPortFrom(netip.Addr{}, be.Uint16(b[27:])),
		WireMin:     b[30],
		WireMax:     b[31],
		ConfigHash:  be.Uint32(b[32:]),
		Name:        name,
		Settings:    settings,
		Jobs:        be.Uint64(rest),
	}
	if err := m.setFlags(b[29]); err != nil {
		return Member{}, 0, err
	}
	if err := m.setMaintenance(rest[metaDigest:]); err != nil {
		return Member{}, 0, err
	}
	if err := checkMeta(m); err != nil {
		return Member{}, 0, err
	}
	return m, be.Uint32(b[36:]), nil
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
		return fmt.Errorf("meta flags %#02x are not known", flags&^knownFlags)
	}
	m.Leaving, m.Draining, m.Settled = flags&flagLeaving != 0, flags&flagDraining != 0, flags&flagSettled != 0
	switch flags & (flagWitness | flagObserver) {
	case flagWitness:
		m.Role = Witness
	case flagObserver:
		m.Role = Observer
	case flagWitness | flagObserver:
		return errors.New("meta says both witness and observer")
	}
	return nil
}

// setMaintenance reads what follows the digest.
func (m *Member) setMaintenance(b []byte) error {
	if len(b) == 0 || b[0] == 0 {
		return nil
	}
	length := int(b[0]) - 1
	if len(b) < 1+length {
		return errors.New("meta ends before its reason does")
	}
	m.InMaintenance, m.Reason = true, string(b[1:1+length])
	return nil
}

func checkMeta(m Member) error {
	switch {
	case m.ID.IsZero():
		return errors.New("id is zero")
	case m.WireMin == 0 || m.WireMin > m.WireMax:
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

// MaxReason bounds Member.Reason, in bytes: gossip repeats it for each member.
const MaxReason = 64

// CheckReason says what a reason of maintenance may be, by our own operator and by gossip
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
// gossip alike: 1 to 63 letters, digits, dots, dashes and underscores, first a
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
