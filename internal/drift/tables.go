package drift

import (
	"slices"

	"github.com/penstock/penstock/internal/stats"
)

// Table has the rows to compare: all rows, and their partitions by time, each row in one of them.
type Table struct {
	Rows       *stats.Outline
	Effects    []float64 // of all rows: see Partition
	Partitions []Partition
}

// Partition has the rows of one partition.
type Partition struct {
	Name string
	Rows *stats.Outline
	// Effects has the design effect of each column: see stats.Profile. nil: the rows of all columns are independent.
	Effects []float64
}

// Partition returns a partition; its Rows are nil if there is none.
func (t Table) Partition(name string) Partition {
	i := slices.IndexFunc(t.Partitions, func(p Partition) bool { return p.Name == name })
	if i < 0 {
		return Partition{}
	}
	return t.Partitions[i]
}

// profiles returns the profiles of a column, given its index.
func (p Partition) profiles(column int, name string) []*stats.Profile {
	out := p.Rows.Profiles(column, name)
	if p.Effects != nil {
		for _, one := range out {
			one.Effect = p.Effects[column]
		}
	}
	return out
}

// Column is a column that both tables have with the same type, by its index in each of them.
type Column struct {
	Name     string
	Base, Of int
	Entry    string // as in Change
}

// Tables compares the columns of a table with those of a base: all rows with all rows, and each partition with the same
// partition of the base, or else with all rows of the base. The changes come in the order of columns.
//
// With limits, only the changes that have a limit are compared. Their limits take the place of the floors, and of the median change of
// partitions. reserve is called with the number of bytes that the comparison takes before it begins.
func Tables(base, of Table, columns []Column, limits Limits, reserve func(bytes int64) error) ([]Change, error) {
	series, bytes := 0, int64(0)
	for _, c := range columns {
		series += of.Rows.Series(c.Of)
		bytes = max(bytes, 2*(base.Rows.ProfileMemory(c.Base)+of.Rows.ProfileMemory(c.Of))) //nolint:mnd // of all rows, and of a partition
	}
	if err := reserve(bytes); err != nil {
		return nil, err
	}
	t := NewTest(series * PerProfile * (1 + 2*len(of.Partitions))) //nolint:mnd // partitions are compared twice
	t.limits = limits
	var out []Change
	for _, c := range columns {
		out = append(out, t.column(base, of, c)...)
	}
	return out, nil
}

// column compares one column.
func (t Test) column(base, of Table, c Column) []Change {
	whole := Partition{Rows: base.Rows, Effects: base.Effects}.profiles(c.Base, c.Name)
	out := compareAll(whole, Partition{Rows: of.Rows, Effects: of.Effects}.profiles(c.Of, c.Name), "", t)
	var direct, peers []Change
	for _, p := range of.Partitions {
		rows := p.profiles(c.Of, c.Name)
		peers = append(peers, compareAll(whole, rows, p.Name, t)...)
		if same := base.Partition(p.Name); same.Rows != nil {
			direct = append(direct, compareAll(same.profiles(c.Base, c.Name), rows, p.Name, t)...)
		}
	}
	if t.limits == nil {
		withoutTrend(peers)
	}
	for _, p := range peers {
		if base.Partition(p.Partition).Rows == nil && p.Measure != Shift { // the times of the day of two days may differ
			direct = append(direct, p)
		}
	}
	out = append(out, Settle(out, direct, len(of.Partitions))...)
	for i := range out {
		out[i].Entry = c.Entry
	}
	return out
}

// compareAll compares the series of a column.
func compareAll(base, of []*stats.Profile, partition string, t Test) (out []Change) {
	for i := range base {
		for _, c := range Compare(base[i], of[i], t) {
			c.Partition = partition
			out = append(out, c)
		}
	}
	return out
}

// comparison identifies the changes that compare the same numbers of different partitions.
type comparison struct {
	column, of string
	measure    Measure
}

func (c Change) comparison() comparison {
	out := comparison{column: c.Column, measure: c.Measure}
	if c.Measure == Top {
		out.of = c.Of
	}
	return out
}

const (
	// A partition that the base does not have differs from its peers if its change is at least beyondPeers times the median change of
	// all partitions, if there are at least minPeers.
	beyondPeers = 3
	minPeers    = 4
)

// withoutTrend ends the alarms of partitions whose changes are not much larger than those of most partitions: values that grow with
// time differ from all rows of the base in every partition.
func withoutTrend(peers []Change) {
	sizes := map[comparison][]float64{}
	for _, p := range peers {
		sizes[p.comparison()] = append(sizes[p.comparison()], p.step())
	}
	for _, s := range sizes {
		slices.Sort(s)
	}
	for i := range peers {
		if s := sizes[peers[i].comparison()]; len(s) >= minPeers {
			peers[i].Alarm = peers[i].Alarm && peers[i].step() > beyondPeers*s[len(s)/2]
		}
	}
}

// step returns the size of the change, which is 0 without a change.
func (c Change) step() float64 {
	if c.Measure == Unit {
		return c.Size() - 1
	}
	return c.Size()
}

// Settle marks the alarms of partitions that all rows stand for: those of a comparison in which all rows have an alarm, if more than half
// of the partitions differ from the base as all rows do. These have the same alarm, or a change in the same direction of at least half
// the size. Partitions whose change is more than beyondPeers times that of all rows keep their own alarms. If a trend hides changes of
// partitions, all rows also stand for these changes. It returns the changes of partitions.
func Settle(whole, partitions []Change, number int) []Change {
	for _, w := range whole {
		if !w.Alarm {
			continue
		}
		most := 2*w.alike(partitions) > number
		for i := range partitions {
			p := &partitions[i]
			if p.comparison() == w.comparison() && p.beyond() && (!p.Alarm || most && p.step() <= beyondPeers*w.step()) {
				p.Alarm, p.PartOfWhole = true, true
			}
		}
	}
	return partitions
}

// Where returns a function that returns the names of the partitions that have the same alarm as all rows, in the order of changes.
func Where(changes []Change) func(whole Change) []string {
	out := map[comparison][]string{}
	for _, c := range changes {
		if c.Alarm && c.Partition != "" {
			out[c.comparison()] = append(out[c.comparison()], c.Partition)
		}
	}
	return func(whole Change) []string { return out[whole.comparison()] }
}

// alike returns how many partitions differ from the base as all rows do, whose change is c.
func (c Change) alike(partitions []Change) (n int) {
	for _, p := range partitions {
		if p.comparison() == c.comparison() && p.direction() == c.direction() && (p.Alarm || 2*p.step() >= c.step()) {
			n++
		}
	}
	return n
}

// direction reports whether the value is larger than that of the base.
func (c Change) direction() bool {
	if c.Measure == Unit {
		return c.Change > 1
	}
	return c.Change > 0
}
