package pictures

import "fmt"

// A write is one to a fenced disk.
type write struct {
	by    string
	epoch uint64
	taken bool
}

var writes = []write{{"alpha", 7, true}, {"beta", 8, true}, {"alpha", 7, false}}

func fencedDisk() *drawing {
	d := &drawing{title: "Epochs and a fenced disk", height: 366,
		about: "alpha writes in epoch 7, and freezes. beta leads and writes in epoch 8, which the disk remembers. alpha wakes and writes in epoch 7: the disk refuses that."}
	l := lanesOf(d, 12, 356, head{"alpha", 76}, head{"disk", 220}, head{"beta", 364})
	l.bar("alpha", 50, 116, leader)
	l.left("alpha", 68, "leads")
	l.send("alpha", "disk", 84, plain, wrote(0))
	l.right("disk", 88, "highest: 7")
	l.bar("alpha", 116, 250, quiet)
	l.left("alpha", 136, "frozen")
	l.bar("beta", 146, 350, leader)
	l.right("beta", 164, "leads")
	l.send("beta", "disk", 192, plain, wrote(1))
	l.left("disk", 196, "highest: 8")
	l.bar("alpha", 250, 310, leader)
	l.left("alpha", 268, "wakes")
	l.send("alpha", "disk", 276, refused, wrote(2))
	l.right("disk", 280, "7 is below 8")
	l.send("disk", "alpha", 304, refused, "exit code 6")
	l.left("alpha", 330, "lets go")
	return d
}

func wrote(n int) string { return fmt.Sprintf("write, epoch %d", writes[n].epoch) }
