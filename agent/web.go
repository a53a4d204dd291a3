package agent

import (
	"context"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/page"
)

// serveWeb answers the network. Without it the agent goes on, as without the local API.
func (a *agent) serveWeb(ctx context.Context) {
	log := a.log.Named("http")
	log.Info("answering the network", "addr", a.web.Addr())
	if err := a.web.Serve(ctx, control.Public(a, log), page.Handler(), log); err != nil {
		log.Error("HTTP failed; the network is answered no more", "err", err)
	}
}
