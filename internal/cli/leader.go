package cli

var leaderCommand = command{
	name: "leader", usage: "print the leader's name",
	about: `Exits 3 when no leader is known, and 4 when no agent answers. A leader that is not ready, since its become-leader hook
		has not succeeded, is the leader all the same: --json says so. To decide whether to act on this host, use is-leader.`,
	examples: []string{program + " leader", program + " leader --json"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		leader, err := c.client().Leader(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return c.printJSON(leader)
		}
		return c.print(leader.Node.Name + "\n")
	},
}
