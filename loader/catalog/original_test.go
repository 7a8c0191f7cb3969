package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
)

// spec: order-31
func TestReplacementsAreOrderedAsTheirOriginals(t *testing.T) {
	const prefix = "penstock-0123456789abcdef-89abcdef-00001"
	first := catalog.File{Location: "s3://b/t/data/day=1/00000-1-x.parquet"}
	name := catalog.ReplacementName(prefix, first)
	require.Equal(t, prefix+"-of-00000-1-x.parquet", name)
	files := []catalog.File{
		{Location: "s3://b/t/data/day=1/00000-2.parquet"},
		{Location: "s3://b/t/data/day=1/" + name},
		{Location: "s3://b/t/data/day=1/00000-0.parquet"},
		{Location: "s3://b/t/data/day=1/penstock-0123456789abcdef-89abcdef-00001.parquet"},
	}
	catalog.Arrange(files)
	var got []string
	for _, f := range files {
		got = append(got, f.OrderedAs())
	}
	require.Equal(t, []string{
		"s3://b/t/data/day=1/00000-0.parquet", first.Location, "s3://b/t/data/day=1/00000-2.parquet",
		"s3://b/t/data/day=1/penstock-0123456789abcdef-89abcdef-00001.parquet",
	}, got)
	require.Equal(t, name, catalog.ReplacementName(prefix, files[1]), "a replacement of a replacement has the name of the first file")
	own, ok := catalog.ReplacementPrefix(files[1].Location)
	require.True(t, ok)
	require.Equal(t, prefix, own)
	_, ok = catalog.ReplacementPrefix(files[3].Location)
	require.False(t, ok)
}

// A file and its replacement are both in a table if others add one of them again. Then both are
// known by their own locations.
//
// spec: order-31
func TestOriginalsThatAreNotUnique(t *testing.T) {
	const replaced = "t/penstock-0123456789abcdef-89abcdef-00001-of-a.parquet"
	for _, other := range []string{"t/a.parquet", "t/penstock-0123456789abcdef-89abcdef-00002-of-a.parquet"} {
		files := []catalog.File{{Location: other, Sequence: 2}, {Location: replaced, Sequence: 1}}
		catalog.Arrange(files)
		require.Equal(t, replaced, files[0].OrderedAs())
		require.Equal(t, other, files[1].OrderedAs())
	}
}
