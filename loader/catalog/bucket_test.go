package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
)

func TestBucketOf(t *testing.T) {
	t.Parallel()
	table := &catalog.Table{Specs: map[int]catalog.Spec{
		0: {
			{Source: 1, Transform: catalog.Transform{Kind: catalog.Identity}},
			{Source: 1, Transform: catalog.Transform{Kind: catalog.Bucket, N: 16}},
			{Source: 2, Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}},
		},
		1: {{Source: 2, Transform: catalog.Transform{Kind: catalog.Bucket, N: 8}}},
	}}
	for name, c := range map[string]struct {
		file   catalog.File
		column int
		want   catalog.FileBucket
		text   string
	}{
		"of one column":   {catalog.File{Partition: []any{int64(7), int64(3), int64(1)}}, 1, catalog.FileBucket{ID: 3, Of: 16}, "3"},
		"of another":      {catalog.File{Partition: []any{int64(7), int64(3), int64(1)}}, 2, catalog.FileBucket{ID: 1, Of: 4}, "1"},
		"of nulls":        {catalog.File{Partition: []any{nil, nil, int64(1)}}, 1, catalog.FileBucket{ID: int(bucket.Null), Of: 16}, "null"},
		"of another spec": {catalog.File{Spec: 1, Partition: []any{int64(5)}}, 2, catalog.FileBucket{ID: 5, Of: 8}, "5"},
	} {
		got, ok := table.BucketOf(c.file, c.column)
		require.True(t, ok, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.text, got.String(), name)
		require.Equal(t, c.text == "null", got.Null(), name)
	}
	_, ok := table.BucketOf(catalog.File{Spec: 1, Partition: []any{int64(5)}}, 1)
	require.False(t, ok, "not bucketed in this spec")
}
