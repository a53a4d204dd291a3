package cli

var metricsCommand = command{
	name: "metrics", usage: "print the agent's numbers in Prometheus's text format",
	about: `For node_exporter's textfile collector, where no port is to be opened: print them into a file of another name in its
		directory, and rename that to *.prom. Those of Go's runtime are left out, since node_exporter has its own.`,
	examples: []string{program + " metrics", program + " metrics | grep bully_leader"},
	options:  []option{socketOption},
	action: func(c *call) error {
		text, err := c.client().Metrics(c.Context.Context)
		if err != nil {
			return err
		}
		return c.print(text)
	},
}
