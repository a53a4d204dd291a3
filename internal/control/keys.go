package control

import "context"

// Keys is what an agent says of the keys by which hosts know each other: their ids,
// never a key.
type Keys struct {
	File     string     `json:"file"`     // that the agent reads; empty: none
	UID      int        `json:"uid"`      // the agent's user, who must be able to read it
	Insecure bool       `json:"insecure"` // none is used, since somebody said so
	Sealed   bool       `json:"sealed"`   // traffic is encrypted and authenticated with them
	Keys     []string   `json:"keys"`     // ids, eight hexadecimal digits each; the first begins
	Join     []string   `json:"join"`     // host:port, as this host's configuration names others; sources are not in it
	Hosts    []HostKeys `json:"hosts"`    // this one first, then by name; those that left are not in it
}

// HostKeys is what one host says to have.
type HostKeys struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Addr   string   `json:"addr"`
	Status string   `json:"status"` // as in Member
	Self   bool     `json:"self"`
	Listed bool     `json:"listed"` // this host's own host list has it, under that name
	Keys   []string `json:"keys"`   // in its order; empty: it has not said so to this host
	Uses   []string `json:"uses"`   // keys of the sessions with it that live
}

// KeyBackend is the part of a Backend that knows of keys.
type KeyBackend interface {
	Keys() Keys
}

func (s *server) keys() (any, error) {
	keys := s.backend.Keys()
	keys.Keys, keys.Join, keys.Hosts = list(keys.Keys), list(keys.Join), list(keys.Hosts)
	for i := range keys.Hosts {
		keys.Hosts[i].Keys, keys.Hosts[i].Uses = list(keys.Hosts[i].Keys), list(keys.Hosts[i].Uses)
	}
	return keys, nil
}

// Keys asks which keys this host and the others have.
func (c *Client) Keys(ctx context.Context) (Keys, error) { return ask[Keys](ctx, c, "/v1/keys") }
