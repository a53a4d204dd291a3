package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// endpoint answers one request, or returns the refusal.
type endpoint func(w http.ResponseWriter, r *http.Request) error

type route struct {
	method, path string
	needs        Right
	answer       endpoint
}

// name is how people know it.
func (r route) name() string { return strings.TrimPrefix(r.path, "/v1/") }

func (s *server) routes() []route {
	routes := []route{
		{http.MethodGet, "/v1/status", Read, s.look(s.status)},
		{http.MethodGet, "/v1/leader", Read, s.look(s.leader)},
		{http.MethodGet, "/v1/members", Read, s.look(func() (any, error) { return list(s.reading.Members()), nil })},
		{http.MethodGet, "/v1/history", Read, s.look(func() (any, error) { return list(s.reading.History()), nil })},
		{http.MethodGet, "/v1/explain", Read, s.explain},
		{http.MethodGet, "/v1/events", Read, s.events},
		{http.MethodGet, "/v1/ok-to-stop", Read, s.okToStop},
		{http.MethodGet, "/v1/lease", Lend, s.lease},
		{http.MethodGet, "/v1/keys", Read, s.look(s.keys)},
		{http.MethodGet, "/metrics", Read, s.metrics},
		{http.MethodPost, "/v1/doctor", Act, s.examine},
		{http.MethodPost, "/v1/reload", Act, s.change("reload", s.reload)},
	}
	routes = append(routes, s.hookRoutes()...)
	routes = append(routes, s.jobRoutes()...)
	for _, name := range slices.Concat(commands, jobCommands) {
		run := func(ctx context.Context, args map[string]string) error {
			return s.backend.Command(ctx, name, args)
		}
		routes = append(routes, route{http.MethodPost, "/v1/" + name, Act, s.change(name, run)})
	}
	return routes
}

// handler sends each request to its route. What has none is refused in JSON
// like everything else, which ServeMux by itself does not do.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	var known []string
	all := s.routes()
	if s.isPublic {
		all = s.publicRoutes()
	}
	for _, r := range all {
		known = append(known, r.method+" "+strings.TrimSuffix(r.path, "{$}"))
		mux.Handle(r.method+" "+r.path, s.handle(s.guarded(r)))
		if s.isPublic {
			mux.Handle(http.MethodOptions+" "+r.path, s.handle(s.options(r)))
		}
		mux.Handle(r.path, s.handle(s.wrongMethod(r)))
	}
	mux.Handle("/", s.handle(func(_ http.ResponseWriter, r *http.Request) error {
		return &APIError{
			Status:  http.StatusNotFound,
			Message: fmt.Sprintf("there is no %q", r.URL.Path),
			Hint:    "there is " + strings.Join(known, ", "),
			Code:    codeUnsupported, // a newer client asks an older agent
		}
	}))
	return mux
}

// guarded answers whoever has the right that the route needs.
func (s *server) guarded(to route) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.permit(r, to); err != nil {
			return err
		}
		return to.answer(w, r)
	}
}

// options tells what a route takes. To those that answer by their status alone it is
// another way to ask.
func (s *server) options(of route) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", publicMethods)
		if strings.HasPrefix(of.path, "/v1/") || of.path == "/metrics" {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return of.answer(withoutBody{w}, r)
	}
}

// withoutBody drops the body of an answer to OPTIONS.
type withoutBody struct{ http.ResponseWriter }

func (w withoutBody) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is for http.ResponseController.
func (w withoutBody) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *server) wrongMethod(right route) endpoint {
	allow := right.method
	switch {
	case s.isPublic:
		allow = publicMethods
	case allow == http.MethodGet:
		allow = "GET, HEAD"
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", allow)
		return &APIError{
			Status:  http.StatusMethodNotAllowed,
			Message: fmt.Sprintf("%s does not take %q", right.path, r.Method),
			Hint:    "use " + right.method,
		}
	}
}

func (s *server) handle(answer endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := answer(w, r); err != nil {
			refusal := asAPIError(err)
			s.write(w, refusal.Status, refusal)
		}
	})
}

// look makes an endpoint of a question.
func (s *server) look(ask func() (any, error)) endpoint {
	return func(w http.ResponseWriter, _ *http.Request) error {
		answer, err := ask()
		if err != nil {
			return err
		}
		s.write(w, http.StatusOK, answer)
		return nil
	}
}

func (s *server) status() (any, error) {
	status := s.reading.Status()
	status.Notes, status.Waiting = list(status.Notes), list(status.Waiting)
	status.Silent, status.Bars, status.Checks = list(status.Silent), list(status.Bars), list(status.Checks)
	status.Resources = list(status.Resources)
	status.Hosts.LeftOut, status.Hosts.LeftOutBy = list(status.Hosts.LeftOut), list(status.Hosts.LeftOutBy)
	if status.Counters == nil {
		status.Counters = map[string]uint64{}
	}
	return status, nil
}

func (s *server) leader() (any, error) {
	status := s.reading.Status()
	if status.Leader == nil {
		return nil, ErrNoLeader
	}
	leader := Leader{Node: *status.Leader, Epoch: status.Epoch, Self: status.LeaderIsSelf, Ready: status.Ready}
	// The epoch is the leadership's name, so this finds it even if the history
	// has moved on since the status was taken.
	for _, past := range slices.Backward(s.reading.History()) {
		if past.Epoch == leader.Epoch {
			leader.Since = past.From
			break
		}
	}
	return leader, nil
}

func (s *server) okToStop(w http.ResponseWriter, r *http.Request) error {
	answer, err := s.backend.OKToStop(r.Context())
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, answer)
	return nil
}

// write sends v whole, or an error in its place if it has no JSON form. What a
// client that went away does not take is dropped.
func (s *server) write(w http.ResponseWriter, status int, v any) {
	body, err := s.encode(v)
	if err != nil {
		s.logger.Error("answer dropped", "err", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":"answer has no JSON form"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.write))
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// encode is what whoever asks may see of v, as JSON.
func (s *server) encode(v any) ([]byte, error) {
	if s.isPublic {
		var err error
		if v, err = publicView(v); err != nil {
			return nil, err
		}
	}
	return json.Marshal(v)
}

// list makes the empty list of a nil slice, so that clients never see null
// where they expect to iterate.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}
