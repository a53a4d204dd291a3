package pictures

// A scene is what a network of five hosts is at one time.
type scene struct {
	torn    bool
	leaders string   // the hosts that lead
	says    []string // below it
}

var torn = []struct {
	mode   string
	scenes []scene
}{
	{"Available mode: each part has a leader", []scene{
		{false, "e", []string{"e leads, epoch 7"}},
		{true, "ce", []string{"e leads, epoch 7;", "c leads, epoch 8"}},
		{false, "c", []string{"8 is higher: e lets", "go, and follows c"}},
	}},
	{"Quorum mode: only a majority has a leader", []scene{
		{false, "e", []string{"e leads, epoch 7"}},
		{true, "c", []string{"e lets go in time;", "c leads, epoch 8"}},
		{false, "c", []string{"nothing changes:", "c leads, epoch 8"}},
	}},
}

// places are the hosts' in a scene, which has two parts when it is torn.
var places = []struct {
	name string
	x, y float64
}{{"a", 20, 20}, {"b", 66, 20}, {"c", 43, 58}, {"d", 124, 20}, {"e", 124, 58}}

func tornNetwork() *drawing {
	const sceneWide, modeHigh = 146, 174
	d := &drawing{title: "A torn network in both modes", height: 2*modeHigh + 10,
		about: "Five hosts, a to c and d, e, of which e leads in epoch 7, are torn apart. In available mode c leads as well, in epoch 8, and stays when the network is whole. " +
			"In quorum mode e lets go before c leads."}
	for i, m := range torn {
		y := float64(i*modeHigh) + 12
		d.bold(8, y+14, start, m.mode)
		for k, s := range m.scenes {
			x := float64(k*sceneWide) + 2
			d.text(x+sceneWide/2, y+42, middle, quiet, []string{"whole", "torn", "whole again"}[k])
			network(d, x, y+50, s)
			d.text(x+sceneWide/2, y+142, middle, plain, s.says...)
		}
	}
	return d
}

func network(d *drawing, x, y float64, s scene) {
	const half = 12
	for i, a := range places {
		for _, b := range places[:i] {
			if s.torn && (a.x > 90) != (b.x > 90) {
				continue
			}
			d.path(thin, point{x + a.x, y + a.y}, point{x + b.x, y + b.y})
		}
	}
	for _, p := range places {
		c := follower
		for _, name := range s.leaders {
			if string(name) == p.name {
				c = leader
				d.box(area{x + p.x - half - 4, y + p.y - half - 4, x + p.x + half + 4, y + p.y + half + 4}, c)
			}
		}
		d.box(area{x + p.x - half, y + p.y - half, x + p.x + half, y + p.y + half}, c, p.name)
	}
	if s.torn {
		d.path(refused, point{x + 96, y}, point{x + 88, y + 26}, point{x + 98, y + 46}, point{x + 92, y + 76})
	}
}
