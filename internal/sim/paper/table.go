package paper

// Table is counts by scenario and by group size.
type Table struct {
	Title string
	About string // a paragraph on what all its rows have in common
	Sizes []int  // group sizes, the failed leader included; one column each
	Rows  []Row
}

// Row is one scenario.
type Row struct {
	Name   string
	Note   string // the scenario and its conventions, in one or two sentences
	Paper  Counting
	Counts []Count // one for each of the table's sizes, or NotRun
}

// MaxSize is the largest group that tables and chart are made for: a storm has
// some millions of messages then.
const MaxSize = 1000

// MinSize is the smallest: a leader that fails, and two to agree.
const MinSize = 3

// unguardedMax bounds the run without the guard, which doubles with each node:
// six million messages for 20.
const unguardedMax = 20

// plan is a row before it is run.
type plan struct {
	name, note string
	paper      Counting
	scenario   func(n int) scenario
	most       int                 // the largest group it is run for; 0: any
	only       func(t tally) Count // what of it is counted; nil: everything
}

func (p plan) row(sizes []int) Row {
	row := Row{Name: p.name, Note: p.note, Paper: p.paper}
	for _, n := range sizes {
		row.Counts = append(row.Counts, p.count(n))
	}
	return row
}

func (p plan) count(n int) Count {
	if p.most != 0 && n > p.most {
		return NotRun
	}
	sent := p.scenario(n).run(n)
	if p.only != nil {
		return p.only(sent)
	}
	return sent.total()
}

func table(title, about string, sizes []int, plans []plan) Table {
	t := Table{Title: title, About: about, Sizes: sizes}
	for _, p := range plans {
		t.Rows = append(t.Rows, p.row(sizes))
	}
	return t
}

// Tables runs all scenarios for groups of these sizes, each from MinSize to
// MaxSize.
func Tables(sizes []int) []Table {
	return []Table{
		table("Table I of the paper: the worst case", aboutTableI, sizes, tableI),
		table("Table II of the paper: the best case", aboutTableII, sizes, tableII),
		table("The same for all: the leader has crashed, and one node notices", aboutEqual, sizes, equalFooting),
		table("Many at once", aboutStorm, sizes, storms),
		table("A node joins", aboutJoin, sizes, joins),
	}
}

// Ours is the table of what the real implementation sends, which the caller has
// counted: a row for each scenario, a Count in it for each size. It sends no
// broadcasts, so that Count.Broadcast is Count.Sent.
func Ours(sizes []int, rows []Row) Table {
	return Table{Title: "The messages of this implementation", About: aboutOurs, Sizes: sizes, Rows: rows}
}
