package control

import (
	"context"
	"net/http"
	"net/url"
)

// Explanation answers /v1/explain: why a member leads, or not, and what comes next, as the
// agent sees it that answers.
type Explanation struct {
	Member   Node     `json:"member"`   // about whom
	Self     bool     `json:"self"`     // it is the agent that answers
	Leads    bool     `json:"leads"`    // the member does
	Headline string   `json:"headline"` // one line
	Reasons  []Reason `json:"reasons"`  // what holds first, then what does not
	Then     []string `json:"then"`     // what comes next, a line each

	// Who takes the lead from the present leader by the policy, when, and what prevents it; "": nobody.
	TakesBack string `json:"takes_back"`
}

// Reason is one of the things that a leader needs.
type Reason struct {
	About string `json:"about"` // its word, for scripts: a bar's, a hurdle's, or what keeps others out
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
}

func (s *server) explain(w http.ResponseWriter, r *http.Request) error {
	member := ""
	err := parseQuery(r.URL.RawQuery, "there is member=NAME", map[string]func(string) error{
		"member": func(value string) error { member = value; return nil }})
	if err != nil {
		return err
	}
	e, err := s.reading.Explain(r.Context(), member)
	if err != nil {
		return err
	}
	e.Reasons, e.Then = list(e.Reasons), list(e.Then)
	s.write(w, http.StatusOK, e)
	return nil
}

// Explain asks why the member with this name or id leads, or not; "" is the agent itself.
func (c *Client) Explain(ctx context.Context, member string) (Explanation, error) {
	path := "/v1/explain"
	if member != "" {
		path += "?" + url.Values{"member": {member}}.Encode()
	}
	return ask[Explanation](ctx, c, path)
}
