package cli

var recordCommand = command{
	name: "record", usage: "write out what this host's election was told lately",
	about: `The agent keeps it in memory (record in [log]): every event with its time, and a mark of what came of it. The record is
		bytes for bully-agent replay. It names hosts, addresses and ids, and holds no key. It takes the right
		to act. The record of an agent ends with the agent.`,
	examples: []string{program + " record > alpha.rec"},
	options:  []option{socketOption},
	action: func(c *call) error {
		if isTerminal(c.out) {
			return usage("write "+program+" record > FILE", "a record is bytes, and standard output is a terminal")
		}
		return c.client().Record(c.Context.Context, c.out)
	},
}
