package agent

// What Prometheus is told. The numbers are what others are shown, too.

// Metrics implements control.MetricsBackend.
func (a *agent) Metrics(accept string, goRuntime bool) (text []byte, contentType string, err error) {
	return a.exporter.Text(accept, goRuntime)
}

// LoseHookOwed implements metrics.Source.
func (a *agent) LoseHookOwed() bool { return a.shown.Load().owes }
