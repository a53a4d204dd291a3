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
	CauseMAC              // a handshake's message whose MAC is wrong: forged or damaged
	CausePrologue         // INIT of a holder of the key, for another cluster or another address
	CauseRepeated         // INIT or PROOF that was there before
	CauseSelf             // this very life has answered itself
	CauseBudget           // INIT beyond what one source or all may cost
	CauseCookie           // INIT that is to come again, with a cookie
	CauseIdentity         // RESP or PROOF of a holder of the key that proves no host
	CauseIndex            // nobody waits for it: of a session that has ended, or forged
	CauseReplayed         // DATA that was there before, or is too old to tell
	CauseForged           // DATA whose tag is wrong: forged or damaged
	CauseSender           // a frame that names another sender than the session's peer
	CauseInner            // sealed, but nothing that one of us would send
	CauseAddress          // a peer that claims the address of another, or of its own later life, which is there
	CauseClash            // a life whose host has another one that is there
	CausePast             // a life whose host has shown a later one: its state directory is an older copy
	CauseOlder            // this host's own state is an older copy: it says and opens nothing
	CauseLife             // another life than a stream is meant for has answered it
	CauseFull             // no room for another peer, address or waiting datagram
	CauseUnanswered       // waited in vain for a session
	CauseStream           // a stream whose other end did not prove itself
	CauseRefused          // our INIT, of whose key the other end knows nothing
	CauseUnlisted         // a host that our host list does not have
	CauseLeftOut          // a host that leaves us out of its list says so
	causes
)

var causeNames = [causes]string{"none", "plain", "length", "version", "type", "key", "mac", "prologue", "repeated", "self", "budget", "cookie",
	"identity", "index", "replayed", "forged", "sender", "inner", "address", "clash", "past", "older", "life", "full", "unanswered", "stream", "refused",
	"unlisted", "left-out"}

// String is the word that counters and logs have for it.
func (c Cause) String() string { return causeNames[c] }

func (c Cause) Error() string { return "sealed: " + c.String() }
