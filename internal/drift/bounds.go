package drift

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/stats"
)

// Limits are the limits of the values of series, by the names of the series, such as price or items.lengths.
type Limits map[string]SeriesLimits

// SeriesLimits are the limits of one series: of its values, and of their changes since a base.
type SeriesLimits struct {
	Bounds  map[Measure]float64 // by one of BoundMeasures
	Changes map[Measure]float64 // by one of Measures, apart from MatchRate and Shift
}

// BoundMeasures returns the measures that may have a bound. All are upper bounds but that of Min.
func BoundMeasures() []Measure { return []Measure{Nulls, NotFinite, Zeros, Min, Max} }

// Checked is what a check of limits has compared, and what is beyond its limit, as JSON.
type Checked struct {
	Table    string `json:"table"`
	Snapshot int64  `json:"snapshot,omitempty,string"` // 0: no snapshot
	Rows     int64  `json:"rows"`
	// Base is the snapshot with which changes were measured; 0: no changes were measured, because there are no limits of changes, the
	// base has no rows, or the base is the snapshot itself.
	Base     int64    `json:"base,omitempty,string"`
	BaseRows int64    `json:"base_rows,omitempty"`
	Columns  []string `json:"columns"` // those with limits
	// NotCompared are columns whose changes have limits, but which the base lacks or has with another type.
	NotCompared []string `json:"not_compared,omitempty"`
	// Partition is the name of the partition field by whose values rows are divided; "" if they are not. Partitions is their number.
	Partition  string   `json:"partition,omitempty"`
	Partitions int      `json:"partitions,omitempty"`
	Broken     []Change `json:"broken"` // as Alarms returns them
}

// Place names the column and the partition of a change.
func (c Change) Place() string {
	if c.Partition == "" {
		return "column " + c.Column
	}
	return fmt.Sprintf("column %s, partition %s", c.Column, c.Partition)
}

// Measurable reports whether a series of a scale has a measure.
func Measurable(p *stats.Profile, m Measure) bool {
	switch m {
	case Nulls:
		return true
	case Zeros:
		return p.HasZeros
	case NotFinite, Unit, Mean, Quantile, Min, Max:
		return p.Scale == stats.Numbers
	case Top, Index:
		return p.Scale == stats.Numbers || p.Scale == stats.Categories
	case Form:
		return p.Scale == stats.Categories && p.HasZeros // booleans have no empty texts
	case MatchRate, Shift:
	}
	return false
}

// Beyond returns the values that are beyond their bounds, of all rows and of each partition. If the same bound is broken in
// partitions, only these are returned, unless they are more than half of all partitions: then only all rows are.
func Beyond(of Table, columns []Column, limits Limits, reserve func(bytes int64) error) ([]Change, error) {
	bytes := int64(0)
	for _, c := range columns {
		bytes = max(bytes, 2*of.Rows.ProfileMemory(c.Of)) //nolint:mnd // of all rows, and of a partition
	}
	if err := reserve(bytes); err != nil {
		return nil, err
	}
	var out []Change
	for _, c := range columns {
		whole := beyond(of.Rows.Profiles(c.Of, c.Name), "", limits)
		var parts []Change
		for _, p := range of.Partitions {
			parts = append(parts, beyond(p.Rows.Profiles(c.Of, c.Name), p.Name, limits)...)
		}
		for _, w := range whole {
			same := func(p Change) bool { return p.comparison() == w.comparison() }
			rest := slices.DeleteFunc(slices.Clone(parts), same)
			switch broken := len(parts) - len(rest); {
			case 2*broken > len(of.Partitions):
				parts, out = rest, append(out, w)
			case broken == 0:
				out = append(out, w)
			}
		}
		out = append(out, parts...)
	}
	return out, nil
}

// beyond returns the values of the series of a column that are beyond their bounds.
func beyond(series []*stats.Profile, partition string, limits Limits) (out []Change) {
	for _, p := range series {
		for _, m := range BoundMeasures() {
			limit, ok := limits[p.Name].Bounds[m]
			if !ok {
				continue
			}
			value, ok := measured(p, m)
			if broken := value > limit; ok && (m == Min && value < limit || m != Min && broken) {
				out = append(out, Change{Column: p.Name, Partition: partition, Measure: m, Value: &value, Change: value, Limit: limit, Alarm: true, Bound: true})
			}
		}
	}
	return out
}

// measured returns the value of a measure with a bound; false if there are no values.
func measured(p *stats.Profile, m Measure) (float64, bool) {
	share := func(part, all int64) (float64, bool) { return float64(part) / float64(all), all > 0 }
	switch m {
	case Nulls:
		return share(p.Nulls, p.Rows)
	case NotFinite:
		return share(p.NotFinite, p.Values)
	case Zeros:
		return share(p.Zeros, p.Values)
	case Min:
		return p.Min, p.Values > p.NotFinite
	case Max:
		return p.Max, p.Values > p.NotFinite
	case Unit, Form, Top, Mean, Quantile, Index, MatchRate, Shift:
	}
	return 0, false
}
