package resolve

import "github.com/penstock/penstock/loader/catalog"

// fileFacts are the facts about one staging file, derived from manifests.
type fileFacts struct {
	keys []interval // for each key column, its values by partition values; nil if unknown
	full []interval // keys, narrowed by statistics; nil if unknown
	time interval   // the values of the time column of a point-in-time rule
	part int32      // the number of the partition by which the file is aligned
	none bool       // no row of the file can match
}

// splitFacts are the facts about the training rows of one split.
type splitFacts struct {
	keys, full []interval // as in fileFacts
	time       interval   // the times of staging rows that the training rows can match
	part       int32      // the number of the staging partition that is aligned with the rows' partition
}

// searchedWhole reports whether each split needs the whole table, whatever its layout: the entry
// broadcasts the table, or uses a custom strategy, which may match keys that are not equal.
func (s Staging) searchedWhole() bool { return s.Strategy.Whole() }

// factsOf returns the facts about a staging file.
func (m *Match) factsOf(f catalog.File) fileFacts {
	var out fileFacts
	spec := m.staging.Pinned.Specs[f.Spec]
	keys, full := make([]interval, len(m.staging.Keys)), make([]interval, len(m.staging.Keys))
	for i, k := range m.staging.Keys {
		values := statistics(f, k.Staging)
		keys[i] = within(spec, f.Partition, k.Staging)
		full[i] = keys[i].and(values)
		out.none = out.none || full[i].empty
		if keys[i].bounded() && !m.staging.searchedWhole() {
			out.keys = keys
		}
		if values.bounded() && !m.staging.searchedWhole() {
			out.full = full
		}
	}
	if t := m.staging.Time; t != nil {
		out.time = within(spec, f.Partition, t.Staging).and(statistics(f, t.Staging))
		out.none = out.none || out.time.empty
	}
	if m.align != nil {
		part, ok := m.align.partOfStaging(f)
		out.part, out.none = part, out.none || !ok
	}
	return out
}

// describe sets the facts about training rows. It returns false if none of the rows can match.
func (m *Match) describe(rows *splitFacts, files []catalog.File) bool {
	spec, partition := m.training.Specs[files[0].Spec], files[0].Partition
	for _, k := range m.staging.Keys {
		parts := within(spec, partition, k.Training)
		full := parts.and(union(files, k.Training))
		if full.empty {
			return false
		}
		rows.keys, rows.full = append(rows.keys, parts), append(rows.full, full)
	}
	if t := m.staging.Time; t != nil {
		span := within(spec, partition, t.Training).and(union(files, t.Training))
		if span.empty {
			return false
		}
		rows.time = interval{low: moved(span.low, -t.reach()), high: span.high}
	}
	return true
}

// within returns the interval of a column's values that the partition values of a file imply.
func within(spec catalog.Spec, partition []any, column catalog.Field) interval {
	var out interval
	for i, p := range spec {
		if p.Source == column.ID {
			out = out.and(partitioned(p, partition[i], column))
		}
	}
	return out
}

// union returns the interval of a column's values in several files.
func union(files []catalog.File, column catalog.Field) interval {
	out := interval{empty: true}
	for _, f := range files {
		out = out.or(statistics(f, column))
	}
	return out
}
