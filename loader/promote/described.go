package promote

import (
	"maps"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// describe returns a rewritten file as a manifest describes it, given the description of the old one: rows, partition, order, age
// and row ids are those of the old file, and so are the statistics of its columns. The new columns have their own, also if the old file has
// columns with their ids.
func describe(old commit.DataFile, f rewritten) commit.DataFile {
	out := old
	out.Location, out.Bytes, out.Splits = f.location, f.made.Bytes, f.made.Splits
	out.ColumnMetrics = commit.ColumnMetrics{
		ColumnBytes: joined(old.ColumnBytes, f.made.ColumnBytes, f.made.Values),
		Values:      joined(old.Values, f.made.Values, f.made.Values),
		Nulls:       joined(old.Nulls, f.made.Nulls, f.made.Values),
		NaNs:        joined(old.NaNs, f.made.NaNs, f.made.Values),
		Lower:       joined(old.Lower, f.made.Lower, f.made.Values),
		Upper:       joined(old.Upper, f.made.Upper, f.made.Values),
	}
	return out
}

// joined returns the entries of both maps, those of some columns from the second one alone.
func joined[V any](old, more map[int]V, of map[int]int64) map[int]V {
	out := make(map[int]V, len(old)+len(more))
	maps.Copy(out, old)
	maps.DeleteFunc(out, func(id int, _ V) bool { _, made := of[id]; return made })
	maps.Copy(out, more)
	return out
}
