package tablediff

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// mayShareKeys returns the files of both snapshots that may have keys of the files that differ. A
// file has none of these keys if its values of the partition fields that are computed from the key
// differ from those of all files that differ, for example if it is in another bucket.
func (c *comparing) mayShareKeys(of differing) []catalog.File {
	specs, parts := map[int]bool{}, map[string]bool{}
	for _, f := range slices.Concat(of.before, of.after) {
		specs[f.Spec], parts[c.keyPartition(f)] = true, true
	}
	if len(specs) == 0 {
		return nil
	}
	var out []catalog.File
	for _, f := range of.same {
		if len(specs) > 1 || !specs[f.Spec] || parts[c.keyPartition(f)] {
			out = append(out, f)
		}
	}
	return out
}

// keyPartition returns a text of a file's values of the partition fields that are computed from
// columns of the key. In files of one spec, rows with the same key have the same text.
func (c *comparing) keyPartition(f catalog.File) string {
	var text []byte
	for i, p := range c.after.Specs[f.Spec] {
		if slices.ContainsFunc(c.key, func(k catalog.Field) bool { return k.ID == p.Source }) {
			column, _ := c.after.ByID(p.Source)
			text = strconv.AppendQuote(text, p.Text(f.Partition[i], column))
		}
	}
	return string(text)
}

// nullBytes returns the memory of n nulls of a type, in bytes.
func nullBytes(of arrow.DataType, n int64) int64 {
	bitmap := n/8 + 1 //nolint:mnd // bits of a byte
	switch t := of.(type) {
	case *arrow.StructType:
		for _, f := range t.Fields() {
			bitmap += nullBytes(f.Type, n)
		}
		return bitmap
	case *arrow.FixedSizeListType:
		return bitmap + nullBytes(t.Elem(), n*int64(t.Len()))
	case arrow.FixedWidthDataType:
		return bitmap + n*int64(t.BitWidth())/8 + 1 //nolint:mnd // bits of a byte
	}
	return bitmap + (n+1)*int64(arrow.Int64SizeBytes) // offsets
}
