package agent

import (
	"context"
	"net/http"

	"github.com/bully-agent/bully-agent/internal/control"
)

// page is what browsers get at / and below /page/; nil: there is none, and they get what
// programs get.
var page http.Handler

// serveWeb answers the network. Without it the agent goes on, as without the local API.
func (a *agent) serveWeb(ctx context.Context) {
	log := a.log.Named("http")
	log.Info("answering the network", "addr", a.web.Addr())
	if err := a.web.Serve(ctx, control.Public(a, log), page, log); err != nil {
		log.Error("HTTP failed; the network is answered no more", "err", err)
	}
}
