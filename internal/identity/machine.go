package identity

import (
	"bytes"

	"golang.org/x/crypto/blake2s"
)

// Machine tells one machine from another, and nothing else of it: a keyed hash of its machine-id (man machine-id), which
// others must not learn. The zero Machine is one without a machine-id, of which nothing is known.
type Machine [16]byte

// machineLabel is the key of the hash.
const machineLabel = "bully-agent machine 1"

// machineDigits is how many hexadecimal digits a machine-id has.
const machineDigits = 32

// MachineOf hashes the text of /etc/machine-id. What is no machine-id gives the zero Machine: no text, as in images of
// containers, the word "uninitialized", which systemd writes into images of hosts, and zeros.
func MachineOf(text []byte) Machine {
	id := bytes.TrimSuffix(text, []byte("\n"))
	if len(id) != machineDigits || len(bytes.Trim(id, "0123456789abcdef")) > 0 || len(bytes.Trim(id, "0")) == 0 {
		return Machine{}
	}
	h, err := blake2s.New128([]byte(machineLabel))
	if err != nil {
		panic("BUG: the label is no key: " + err.Error())
	}
	h.Write(id)
	return Machine(h.Sum(nil))
}

// IsZero reports whether nothing is known of the machine.
func (m Machine) IsZero() bool { return m == Machine{} }

// IsAnother reports whether both are known and differ. Containers of one image may have its machine-id in common: they are
// not told apart.
func (m Machine) IsAnother(than Machine) bool { return !m.IsZero() && !than.IsZero() && m != than }
