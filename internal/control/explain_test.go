package control

import (
	"context"
	"errors"
	"net/http"
	"testing"
)

func alphaExplained() Explanation {
	return Explanation{Member: Node{ID: "5d0e4a6e-7f0e-4b7a-9d93-2f8f0a3c6d51", Name: "alpha", Addr: "192.168.1.11:7950"}, Self: true,
		Headline: "alpha does not lead: beta does, epoch 42, for 3h", Reasons: []Reason{{About: "part", OK: true, Text: "voter"}}}
}

func TestExplainAsksAboutAMember(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{explanation: alphaExplained()}, nil)
	client := Dial(srv.path)
	for _, member := range []string{"", "alpha"} {
		if e, err := client.Explain(context.Background(), member); err != nil || e.Headline != alphaExplained().Headline {
			t.Errorf("explain %q: %+v, %v", member, e, err)
		}
	}
	_, err := client.Explain(context.Background(), "a b&c")
	if refused := (*APIError)(nil); !errors.As(err, &refused) || refused.Message != "nobody is called a b&c" {
		t.Errorf("explain of nobody: %v", err)
	}
	if resp, body := request(t, srv.path, http.MethodGet, "/v1/explain?who=alpha", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", resp.StatusCode, body)
	}
}
