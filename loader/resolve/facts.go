package resolve

import "github.com/penstock/penstock/loader/catalog"

// fileFacts are what manifests say of one staging file.
type fileFacts struct {
	keys []interval // per key column, by partition values; nil if they say nothing
	full []interval // the same, narrowed by statistics; nil if they say nothing
	time interval   // of a point-in-time rule
	part int32      // number of the partition that alignment goes by
	none bool       // no row can match
}

// splitFacts are what is known of the training rows of one split.
type splitFacts struct {
	keys, full []interval // per key column, as in fileFacts
	time       interval   // the times of staging rows that they can match
	part       int32      // number of the staging partition that is aligned with theirs
}

// searchedWhole says that the layout of the keys narrows nothing: the entry
// broadcasts its table, or a custom strategy searches it, which may find keys
// that are not equal.
func (s Staging) searchedWhole() bool { return s.Strategy.Whole() }

// factsOf collects what is known of a staging file.
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

// describe collects what is known of training rows; false if none can match.
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

// within is what the partition values of a file say of a column.
func within(spec catalog.Spec, partition []any, column catalog.Field) interval {
	var out interval
	for i, p := range spec {
		if p.Source == column.ID {
			out = out.and(partitioned(p, partition[i], column))
		}
	}
	return out
}

// union is the interval of a column's values in several files.
func union(files []catalog.File, column catalog.Field) interval {
	out := interval{empty: true}
	for _, f := range files {
		out = out.or(statistics(f, column))
	}
	return out
}
