package promote

import (
	"maps"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// describe returns a rewritten file as a manifest describes it, given the description of the old one: rows, partition, order, age
// and row ids are those of the old file, and so are the statistics of its columns.
func describe(old commit.DataFile, f rewritten) commit.DataFile {
	out := old
	out.Location, out.Bytes, out.Splits = f.location, f.made.Bytes, f.made.Splits
	out.ColumnMetrics = commit.ColumnMetrics{
		ColumnBytes: joined(old.ColumnBytes, f.made.ColumnBytes),
		Values:      joined(old.Values, f.made.Values),
		Nulls:       joined(old.Nulls, f.made.Nulls),
		NaNs:        joined(old.NaNs, f.made.NaNs),
		Lower:       joined(old.Lower, f.made.Lower),
		Upper:       joined(old.Upper, f.made.Upper),
	}
	return out
}

// joined returns the entries of both maps.
func joined[V any](old, more map[int]V) map[int]V {
	out := make(map[int]V, len(old)+len(more))
	maps.Copy(out, old)
	maps.Copy(out, more)
	return out
}
