package shape_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/shape"
	"github.com/penstock/penstock/loader/resolve"
)

// planOf returns a plan with a split for each number of rows. Split i is of bucket i, and joins file group i%2 of one entry.
func planOf(rows ...int64) *plan.Plan {
	p := &plan.Plan{
		ID: "p", Staging: []plan.Staging{{Groups: []plan.FileGroup{
			{Rows: 10, Files: []catalog.File{{Location: "s0", Rows: 10, Bytes: 1}}}, {Rows: 30, Files: []catalog.File{{Location: "s1", Rows: 30, Bytes: shape.SmallFile}}},
		}}},
	}
	p.Relation = &resolve.Relation{Staging: []resolve.Staging{{Staging: dataset.Staging{Name: "history"}}}}
	for i, n := range rows {
		name := string(rune('a' + i%26))
		p.StoredRows += n
		p.Splits = append(p.Splits, plan.Split{
			Bucket: catalog.FileBucket{ID: i, Of: len(rows)}, Rows: n, Groups: []int{i % 2},
			Files: []plan.FileRange{{File: catalog.File{Location: name, Rows: n, Bytes: n}}},
		})
		p.Lanes = append(p.Lanes, plan.Lane{Rows: n})
	}
	return p
}

func TestBucketsLanesAndFiles(t *testing.T) {
	p := planOf(5, 0, 7)
	p.Splits[1].Groups[0] = resolve.NoGroup
	p.Splits[2].Bucket.ID = 0 // a second split of bucket 0
	p.Splits[2].Groups[0] = 1
	got := shape.Of(p)
	require.Equal(t, []shape.Bucket{{From: 0, To: 0, Rows: 12, Joined: []int64{30}}, {From: 1, To: 1, Joined: []int64{0}}}, got.Buckets)
	require.Equal(t, []shape.Lane{{From: 0, To: 0, Rows: 5}, {From: 1, To: 1}, {From: 2, To: 2, Rows: 7}}, got.Lanes)
	require.Equal(t, shape.Files{Count: 3, Small: 3, Bytes: 12, Rows: 12}, got.Training)
	require.Equal(t, []shape.Entry{{Name: "history", Groups: 2, Files: shape.Files{Count: 2, Small: 1, Bytes: shape.SmallFile + 1, Rows: 40}}}, got.Staging)
}

// Neighbors count together if there are many, and no row is lost.
func TestManyBuckets(t *testing.T) {
	rows := make([]int64, 1025)
	for i := range rows {
		rows[i] = int64(i)
	}
	got := shape.Of(planOf(rows...))
	require.Len(t, got.Buckets, 114)
	require.Equal(t, shape.Bucket{From: 9, To: 17, Rows: 117, Joined: []int64{30}}, got.Buckets[1])
	require.Equal(t, 1024, got.Buckets[113].To)
	sum := int64(0)
	for _, b := range got.Buckets {
		sum += b.Rows
	}
	require.Equal(t, got.Rows, sum)
	require.Len(t, got.Lanes, 114)
}

// Splits without a bucket, and those of the bucket of nulls, are one part.
func TestNoBuckets(t *testing.T) {
	p := planOf(5, 6)
	p.Splits[0].Bucket, p.Splits[1].Bucket = catalog.FileBucket{}, catalog.FileBucket{}
	require.Equal(t, []shape.Bucket{{From: -1, To: -1, Rows: 11, Joined: []int64{30}}}, shape.Of(p).Buckets)
}
