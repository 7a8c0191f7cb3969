package promote

import (
	"maps"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// describe returns the manifest's description of a rewritten file. It copies rows, partition,
// order, age, row ids and column statistics from the description of the old file. The statistics of
// the new columns come from the rewritten file, even if the old file has columns with the same ids.
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

// joined merges old and more. It ignores entries of old whose ids are keys of the map `of`.
func joined[V any](old, more map[int]V, of map[int]int64) map[int]V {
	out := make(map[int]V, len(old)+len(more))
	maps.Copy(out, old)
	maps.DeleteFunc(out, func(id int, _ V) bool { _, made := of[id]; return made })
	maps.Copy(out, more)
	return out
}
