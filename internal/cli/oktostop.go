package cli

var okToStopCommand = command{
	name: "ok-to-stop", usage: "say whether the others can do without this host",
	about: `Says which host leads, or would lead, without this host at this moment, and how many voters stay (in available mode: hosts). Exit code
		0 if somebody leads then, with a majority of the voters; 6 if not, with the reason. A rolling restart asks it before each
		host, begins with maintenance on, and goes on when it says ok again.`,
	examples: []string{program + " ok-to-stop", program + " ok-to-stop && systemctl restart bully-agent"},
	options:  []option{jsonOption, socketOption},
	action: func(c *call) error {
		answer, err := c.client().OKToStop(c.Context.Context)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			err = c.printJSON(answer)
		} else {
			err = c.print(answer.Text + "\n")
		}
		if err == nil && !answer.OK {
			return outcome(exitRefused)
		}
		return err
	},
}
