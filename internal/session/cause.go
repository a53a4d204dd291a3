package session

// Cause is why a datagram or stream was not taken; each is counted.
type Cause uint8

const (
	CauseNone       Cause = iota
	CausePlain            // neither sealed nor an attempt at it: the sender has no key
	CauseLength           // no datagram of ours is that long
	CauseVersion          // sealed by another version
	CauseType             // no type or kind of record that we know
	CauseKey              // INIT under a key that is not in the ring
	CauseMAC              // INIT or RESP whose MAC is wrong: forged or damaged
	CausePrologue         // INIT of a holder of the key, for another cluster or another address
	CauseRepeated         // INIT that was there before, or is older than one that was
	CauseSelf             // INIT of our own
	CauseBudget           // INIT beyond what one host, one source or all may cost
	CauseIndex            // nobody waits for it: of a session that has ended, or forged
	CauseReplayed         // DATA that was there before, or is too old to tell
	CauseForged           // DATA whose tag is wrong: forged or damaged
	CauseSender           // a frame that names another sender than the session's peer
	CauseInner            // sealed, but nothing that one of us would send
	CauseAddress          // a peer that claims the address of another, which is there
	CauseFull             // no room for another peer, address or waiting datagram
	CauseUnanswered       // waited in vain for a session
	CauseStream           // a stream whose other end did not prove itself
	CauseRefused          // our INIT, of whose key the other end knows nothing
	causes
)

var causeNames = [causes]string{"none", "plain", "length", "version", "type", "key", "mac", "prologue", "repeated", "self", "budget",
	"index", "replayed", "forged", "sender", "inner", "address", "full", "unanswered", "stream", "refused"}

// String is the word that counters and logs have for it.
func (c Cause) String() string { return causeNames[c] }

func (c Cause) Error() string { return "sealed: " + c.String() }
