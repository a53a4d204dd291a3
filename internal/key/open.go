package key

import (
	"crypto/sha256"
	"time"
)

// Open is the ring of hosts that share no key: a key that everybody has. It keeps nobody out, so whoever reaches the port can
// join. Each host proves its own id under it all the same, and nobody speaks for another.
func Open() Ring { return Ring{{ID: openID, Made: time.Unix(0, 0).UTC(), Secret: openSecret}} }

// openSecret is public.
var (
	openSecret = sha256.Sum256([]byte("bully-agent: the key that everybody has"))
	openID     = IDOf(openSecret)
)

// IsOpen reports whether the id is that of the key which everybody has.
func (id ID) IsOpen() bool { return id == openID }
