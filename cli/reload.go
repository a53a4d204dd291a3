package cli

var reloadCommand = command{
	name: "reload", usage: "have the agent read its configuration again",
	about: `As SIGHUP, but says what came of it: an invalid configuration changes nothing, and the exit code is 7. Settings that
		need a restart are named in the agent's log.`,
	examples: []string{program + " reload", program + " reload --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		if err := c.client().Reload(c.Context.Context); err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(map[string]bool{"done": true})
		}
		return c.print("configuration reloaded\n")
	},
}
