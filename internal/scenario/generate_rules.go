package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// stagingEntry adds a staging table and the rules of its join. Sometimes it reuses the
// table of the previous entry with other rules.
func (g *generator) stagingEntry(i int) {
	name := fmt.Sprintf("s%d", i)
	entry := dataset.Staging{
		Table: "features." + name, Name: name, MaxAmplification: pick(g.Rand, 1, dataset.DefaultMaxAmplification, unlimited),
		Join:     pick(g.Rand, rule.Left, rule.Left, rule.Left, rule.Inner, rule.Semi, rule.Anti, rule.Overlay, rule.Overlay),
		Strategy: pick(g.Rand, rule.StrategyAuto, rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip, rule.StrategyBroadcast),
		Key:      []dataset.KeyPair{{Training: "k", Staging: "req"}},
	}
	switch g.IntN(6) {
	case 0:
		entry.Key = append(entry.Key, dataset.KeyPair{Training: "k2", Staging: "req2"})
	case 1:
		entry.Key = []dataset.KeyPair{{Training: "k2", Staging: "req2"}}
	}
	aligned, again := "", i > 0 && g.chance(6)
	if again {
		entry.Table = g.Dataset.Staging[i-1].Table
		g.Layouts["a table twice"]++
	}
	if g.alignment.training != "" && g.chance(2) && (!again || g.Dataset.Staging[i-1].Align != nil) {
		aligned = g.alignment.staging
		rule := pick(g.Rand, g.alignment.rules...)
		rule.Training, rule.Staging = g.alignment.column, g.alignment.column
		entry.Align = &rule
		g.Layouts["align "+string(rule.Rule)]++
	}
	if g.chance(6) {
		entry.PointInTime = &dataset.PointInTime{Training: "ts", Staging: "ts", Tolerance: dataset.Lag{Time: time.Duration(1+g.IntN(60)) * time.Hour}, Exact: g.chance(2)}
		switch {
		case g.timed && g.chance(2):
			entry.PointInTime.Training, entry.PointInTime.Staging = "x", "x"
			tolerance := pick(g.Rand, entry.PointInTime.Tolerance.Time, 2, time.Microsecond, math.MaxInt64)
			entry.PointInTime.Tolerance = dataset.Lag{Time: tolerance}
			if g.shared == "long" {
				entry.PointInTime.Tolerance = dataset.Lag{Count: int64(tolerance)}
			} else if tolerance < 24*time.Hour { // a tolerance of less than one unit would match nothing
				entry.PointInTime.Exact = entry.PointInTime.Exact || g.shared == "date" || tolerance < time.Microsecond
			}
			g.Layouts["point in time at any time"]++
		case g.chance(3):
			entry.PointInTime.Training, entry.PointInTime.Staging = "day", "day"
			entry.PointInTime.Exact = entry.PointInTime.Exact || entry.PointInTime.Tolerance.Time < 24*time.Hour // the unit is a day
		}
		g.Layouts["point in time"]++
	}
	header := g.stagingHeader(i)
	if again {
		header = g.Staging[i-1].Header
	}
	unique := false
	if entry.Join != rule.Semi && entry.Join != rule.Anti {
		unique = g.duplicates(&entry, header)
		g.missing(&entry, name, typesOf(header))
	}
	g.Layouts["strategy "+entry.Strategy.String()]++
	if again {
		g.Staging = append(g.Staging, g.Staging[i-1])
	} else {
		g.Staging = append(g.Staging, g.stagingTable(i, header, aligned, unique))
	}
	if g.chance(3) {
		entry.Filter = g.filter(columnsOf(g.Staging[i])).Parsed()
	}
	g.Dataset.Staging = append(g.Dataset.Staging, entry)
}

// prefix returns the prefix of the names of columns that only an entry's table has.
func prefix(entry dataset.Staging) string { return strings.TrimPrefix(entry.Table, "features.") }

// duplicates chooses the rule for duplicate keys, and whether the table must have no duplicate
// keys.
func (g *generator) duplicates(entry *dataset.Staging, header string) (unique bool) {
	entry.Duplicates = pick(g.Rand, rule.DuplicatesFirst, rule.DuplicatesLast)
	switch g.IntN(8) {
	case 0, 1:
		if entry.Join != rule.Overlay && entry.PointInTime == nil {
			entry.Duplicates = rule.DuplicatesAll
		}
	case 2:
		entry.Duplicates = rule.DuplicatesError
		return !g.chance(4)
	}
	if entry.Duplicates != rule.DuplicatesError && g.chance(2) {
		columns := []string{"version", "ts", "score", "region"}
		for name, dt := range typesOf(header) {
			if !arrow.IsNested(dt.ID()) && name != "row" && name != "part" {
				columns = append(columns, name)
			}
		}
		slices.Sort(columns)
		entry.OrderBy = []dataset.OrderBy{{Column: pick(g.Rand, columns...), Descending: g.chance(2)}}
		if g.chance(3) {
			entry.OrderBy = append(entry.OrderBy, dataset.OrderBy{Column: "part", Descending: g.chance(2)})
		}
	}
	return g.chance(6)
}

// payloadColumns returns the columns of random types, some of them truncated or cast.
func (g *generator) payloadColumns(table, name string, types map[string]arrow.DataType) []dataset.Column {
	columns := []dataset.Column{{Column: "x", Name: name + "_x"}}
	for _, column := range stagingPayload {
		columns = append(columns, dataset.Column{Column: table + "_" + column, Name: name + "_" + column})
	}
	for i, column := range columns {
		g.shape(&columns[i], types[column.Column])
	}
	return columns
}

// shape sometimes truncates lists or casts values.
func (g *generator) shape(column *dataset.Column, dt arrow.DataType) {
	if dt.ID() == arrow.LIST && g.chance(2) {
		column.First = 1 + g.IntN(2)
	}
	if to := casts(dt); len(to) > 0 && g.chance(3) {
		column.As = pick(g.Rand, to...)
		g.Layouts["cast of "+dt.Name()]++
	}
}

// missing chooses the columns of an entry, and the rule for missing keys.
func (g *generator) missing(entry *dataset.Staging, name string, types map[string]arrow.DataType) {
	entry.Columns = []dataset.Column{}
	table := prefix(*entry)
	for _, column := range append(g.payloadColumns(table, name, types), []dataset.Column{
		{Column: table + "_s", Name: name + "_s"},
		{Column: table + "_v", Name: name + "_v"},
		{Column: table + "_v", Name: name + "_cast", As: "double"},
		{Column: table + "_t", Name: name + "_t", First: g.IntN(3)},
		{Column: table + "_t", Name: name + "_last", Last: 1 + g.IntN(2)},
		{Column: table + "_v", Name: name + "_again"},
		{Column: "version", Name: name + "_version", As: pick(g.Rand, "", "int", "float")},
	}...) {
		if !g.chance(3) {
			entry.Columns = append(entry.Columns, column)
		}
	}
	g.Shuffle(len(entry.Columns), func(a, b int) { entry.Columns[a], entry.Columns[b] = entry.Columns[b], entry.Columns[a] })
	switch {
	case entry.Join == rule.Overlay:
		d := g.Dataset.Training.Distinct
		if d == nil || !slices.Contains(d.By, "label") {
			entry.Columns = append(entry.Columns, dataset.Column{Column: "label"})
		}
		if (d == nil || len(d.OrderBy) == 0 || d.OrderBy[0].Column != "score") && g.chance(2) {
			entry.Columns = append(entry.Columns, dataset.Column{Column: "score"})
		}
		if !g.timed && g.chance(2) {
			entry.Columns = append(entry.Columns, dataset.Column{Column: "x"})
		}
		entry.Nulls = pick(g.Rand, rule.NullsKeep, rule.NullsReplace)
	case g.chance(5):
		entry.Columns, entry.Prefix = nil, name+"_all_"
	}
	if entry.Join != rule.Inner && g.chance(4) {
		entry.MatchedAs = "has_" + name
	}
	switch {
	case g.chance(24):
		entry.Missing = rule.MissingError
	case entry.Join != rule.Inner && g.chance(3):
		for _, column := range entry.Columns {
			switch column.Name {
			case name + "_s":
				entry.Defaults = append(entry.Defaults, dataset.Default{Column: column.Output(), Value: "none"})
			case name + "_cast":
				entry.Defaults = append(entry.Defaults, dataset.Default{Column: column.Output(), Value: -1.5})
			case name + "_again":
				entry.Defaults = append(entry.Defaults, dataset.Default{Column: column.Output(), Value: int64(5)})
			case name + "_v":
				entry.Defaults = append(entry.Defaults, dataset.Default{Column: column.Output(), Value: int64(-7)})
			}
		}
		slices.SortFunc(entry.Defaults, func(a, b dataset.Default) int { return strings.Compare(a.Column, b.Column) })
		if len(entry.Defaults) > 0 {
			entry.Missing = rule.MissingDefault
		}
	}
}
