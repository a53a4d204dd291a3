package pictures

func processes() *drawing {
	d := &drawing{title: "Agent, keeper, holder", height: 346,
		about: "The agent gives the keeper orders and the time of the lease's end, and hears results. The keeper runs hooks, checks and resources, and each job by a holder. " +
			"exec and hold run their commands by a holder, which follows the agent's lease itself. The reader answers the network from boards that the agent writes."}
	d.box(area{12, 12, 158, 106}, follower, "agent", "decides", "reads the network", "has the key")
	d.box(area{272, 12, 428, 106}, leader, "keeper", "runs commands", "reads no network", "has no key")
	d.arrow(plain, point{158, 44}, point{272, 44})
	d.text(215, 38, middle, plain, "orders, lease")
	d.arrow(plain, point{272, 84}, point{158, 84})
	d.text(215, 78, middle, plain, "results")

	const bus = 128
	d.path(plain, point{338, 106}, point{338, bus})
	d.path(plain, point{221, bus}, point{386, bus})
	for _, b := range []struct {
		name        string
		left, right float64
	}{{"hooks", 188, 254}, {"checks", 260, 330}, {"resources", 342, 434}} {
		mid := (b.left + b.right) / 2
		if mid > 380 {
			mid = 386
		}
		d.arrow(plain, point{mid, bus}, point{mid, 154})
		d.box(area{b.left, 154, b.right, 188}, plain, b.name)
	}
	d.arrow(plain, point{336, bus}, point{336, 222})
	d.box(area{290, 222, 382, 256}, candidate, "holder")
	d.arrow(plain, point{336, 256}, point{336, 296})
	d.box(area{286, 296, 386, 330}, plain, "a job")

	d.arrow(plain, point{62, 154}, point{62, 106})
	d.text(68, 136, start, plain, "asks")
	d.box(area{12, 154, 112, 188}, plain, "exec, hold")
	d.arrow(plain, point{62, 188}, point{62, 222})
	d.box(area{12, 222, 112, 256}, candidate, "holder")
	d.arrow(plain, point{138, 106}, point{138, 239}, point{112, 239})
	d.text(132, 212, end, plain, "lease")
	d.arrow(plain, point{148, 106}, point{148, 303}, point{162, 303})
	d.text(154, 250, start, plain, "boards")
	d.box(area{162, 280, 274, 330}, quiet, "reader", "has no rights")
	d.arrow(plain, point{62, 256}, point{62, 296})
	d.box(area{12, 296, 112, 330}, plain, "command")
	return d
}
