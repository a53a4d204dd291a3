// Package session is the sessions of one host with others that share a key: what makes
// them, what is sealed and opened in them, and what time does to them.
//
//	Send                                           Receive
//	    │                                             ▲
//	  Table  ── routes (addresses) ── peers (lives) ── sessions
//	    │            door: which INITs are worth a curve
//	    ▼                                             │
//	  Config.Emit                              datagrams; Call, Request: streams
//
// Its rules (S1 to S20) and the layout of all messages are in protocol 10;
// testdata/seal has each with its steps, made by other code.
//
// The table is the protocol: it has no clock, goroutine or lock, and all of it is
// tested in virtual time. Package sealed drives it.
//
// Of flynn/noise, whose one home this is:
//
//   - A state whose ReadMessage fails may be of no more use. So the MAC is checked before,
//     and no stranger can spoil a handshake that is under way; a holder of the key may.
//   - Its Cipher allocates a nonce for each message. The keys are taken out of it, and
//     the cipher is x/crypto's, with Noise's nonces.
//   - DH25519 gives crypto/ecdh the bytes of a private key at each use, and that computes
//     the public key anew: two curves for one. Ours keeps the key (curve.go).
//   - Encrypt and Decrypt count by themselves, which datagrams that get lost do not.
//   - NewHandshakeState shares the pattern: with psk0 it copies what it changes, with
//     other places it would write into the package's own.
package session
