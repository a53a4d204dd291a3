package pictures

func handover() *drawing {
	d := &drawing{title: "A hand-over, and the death of a host, in time", height: 828,
		about: "Planned: alpha asks beta whether it is ready, runs its lose hook while its lease goes on, and steps down; beta claims epoch 8 and runs its become hook. " +
			"Death: beta hears no heartbeat, probes alpha, asks gamma, waits until alpha's lease is over, and claims."}
	planned(d, 12)
	death(d, 424)
	return d
}

func three(d *drawing, top, bottom float64) lanes {
	return lanesOf(d, top, bottom, head{"alpha", 76}, head{"beta", 220}, head{"gamma", 364})
}

func planned(d *drawing, y float64) {
	d.bold(12, y+14, start, "Planned: a stop, step-down, a better host")
	l := three(d, y+28, y+396)
	l.bar("alpha", y+66, y+162, leader)
	l.right("alpha", y+84, "leads, epoch 7")
	l.send("alpha", "beta", y+118, plain, "PREPARE")
	l.send("beta", "alpha", y+146, plain, "READY")
	l.bar("alpha", y+162, y+216, candidate)
	l.right("alpha", y+182, "lose hook; the", "lease goes on")
	l.send("alpha", "beta", y+240, plain, "RESIGN, to beta")
	claim(l, y+268)
}

// claim is how beta comes to lead.
func claim(l lanes, y float64) {
	l.send("beta", "alpha", y, plain, "epoch 8")
	l.send("beta", "gamma", y, plain, "epoch 8")
	l.send("alpha", "beta", y+28, plain, "acknowledged")
	l.send("gamma", "beta", y+28, plain, "acknowledged")
	takeOver(l, y+38)
}

func takeOver(l lanes, y float64) {
	l.bar("beta", y, y+44, candidate)
	l.right("beta", y+26, "become hook")
	l.bar("beta", y+44, y+90, leader)
	l.right("beta", y+72, "leads, epoch 8")
}

func death(d *drawing, y float64) {
	d.bold(12, y+14, start, "Unplanned: the leader's host dies")
	l := three(d, y+28, y+396)
	l.bar("alpha", y+66, y+112, leader)
	l.right("alpha", y+84, "leads, epoch 7")
	l.death("alpha", y+112)
	l.right("alpha", y+117, "dies")
	l.right("beta", y+140, "silence, 150 ms")
	l.send("beta", "alpha", y+172, refused, "PROBE, lost")
	l.send("beta", "gamma", y+172, plain, "do you hear it?")
	l.send("gamma", "beta", y+200, plain, "no")
	l.path(refused, point{12, y + 232}, point{width - 12, y + 232})
	l.text(148, y+226, middle, plain, "the lease ends")
	l.text(292, y+226, middle, plain, "after 250 ms")
	l.send("beta", "gamma", y+268, plain, "epoch 8")
	l.send("gamma", "beta", y+296, plain, "acknowledged")
	takeOver(l, y+306)
}
