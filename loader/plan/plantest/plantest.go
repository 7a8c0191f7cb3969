// Package plantest has tables in memory, and plans of datasets over them, for tests of plans and of their texts.
package plantest

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Joined builds the plan of a dataset over tables in memory.
func Joined(d dataset.Dataset, tables []*catalog.Table, files plan.Files, q dataset.Query) (*plan.Plan, error) {
	r, err := resolve.Bind(d.Defaults(), tables[0], tables[1:])
	if err != nil {
		return nil, err
	}
	return BindAndBuild(r, files, q.Defaults())
}

// BindAndBuild builds the plan of a query over known files.
func BindAndBuild(r *resolve.Relation, files plan.Files, q dataset.Query) (*plan.Plan, error) {
	b, err := plan.Bind(r, q.Rows)
	if err != nil {
		return nil, err
	}
	return plan.Build(b, files)
}

// Partitioned returns a partition field of a column.
func Partitioned(name string, source int, kind catalog.TransformKind, n int) catalog.PartitionField {
	return catalog.PartitionField{ID: 1000 + source, Source: source, Name: name, Transform: catalog.Transform{Kind: kind, N: n}}
}

// History returns a staging table of a request's history, with a day.
func History(specs map[int]catalog.Spec) *catalog.Table {
	return &catalog.Table{
		Name: "features.history", Pin: dataset.TablePin{UUID: "s", Snapshot: 7, Schema: 1},
		Fields: []catalog.Field{
			{ID: 1, Name: "req", Type: arrow.PrimitiveTypes.Int64},
			{ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64},
			{ID: 3, Name: "age", Type: arrow.PrimitiveTypes.Int32},
		},
		Specs: specs,
	}
}

// Staged returns a staging file.
func Staged(name string, spec int, bytes int64, partition ...any) catalog.File {
	return catalog.File{Location: name, Bytes: bytes, Rows: bytes / 100, Sequence: 1, Spec: spec, Partition: partition}
}

// Entry returns an entry for the staging table of History.
func Entry() dataset.Staging {
	return dataset.Staging{
		Table: "features.history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}}, Columns: []dataset.Column{{Column: "age"}},
	}
}

// Homefeed returns a dataset of the training table with some entries.
func Homefeed(entries ...dataset.Staging) dataset.Dataset {
	return dataset.Dataset{Name: "home", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}, Staging: entries}
}

// Mixed returns two tables that changed their specs: the training table its bucket
// count, the staging table from no buckets to some, and then to more.
func Mixed() ([]*catalog.Table, plan.Files) {
	t := Training(4)
	t.Specs[1] = catalog.Spec{Partitioned("day", 2, catalog.Identity, 0), Partitioned("bucket", 1, catalog.Bucket, 8)}
	s := History(map[int]catalog.Spec{0: nil, 1: {Partitioned("b", 1, catalog.Bucket, 2)}, 2: {Partitioned("b", 1, catalog.Bucket, 12)}})
	s.SortOrders = map[int]catalog.SortOrder{3: {{Source: 1, Transform: catalog.Transform{Kind: catalog.Identity}}, {Source: 2, Transform: catalog.Transform{Kind: catalog.Identity}, Descending: true}}}
	var files plan.Files
	for day := range int64(2) {
		for b := range int64(4 + 4*day) {
			f := File(fmt.Sprintf("mem://train/%d/%d", day, b), day+1, b, 1000+b, day+1)
			f.Spec = int(day)
			files.Training.Files = append(files.Training.Files, f)
		}
	}
	old := Staged("mem://history/old", 0, 3000)
	old.Ranges = map[int]expr.Range{1: {Lower: expr.Int(0), Upper: expr.Int(99), HasLower: true, HasUpper: true, Rows: 30}}
	staging := []catalog.File{old}
	for b := range int64(2) {
		staging = append(staging, Staged(fmt.Sprintf("mem://history/2/%d", b), 1, 20_000, b))
	}
	for b := range int64(12) {
		f := Staged(fmt.Sprintf("mem://history/12/%d", b), 2, 50_000, b)
		f.SortOrder = 3
		staging = append(staging, f)
	}
	files.Staging = []plan.Listing{{Files: staging}}
	return []*catalog.Table{t, s}, files
}

// Days returns tables of one bucket and the given days.
func Days(training, staging []int64) ([]*catalog.Table, plan.Files) {
	t := &catalog.Table{
		Name: "ml.train", Pin: dataset.TablePin{UUID: "t", Snapshot: 1},
		Fields: []catalog.Field{{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64}},
		Specs:  map[int]catalog.Spec{0: {Partitioned("day", 2, catalog.Identity, 0), Partitioned("bucket", 1, catalog.Bucket, 2)}},
	}
	s := History(map[int]catalog.Spec{0: {Partitioned("day", 2, catalog.Identity, 0), Partitioned("b", 1, catalog.Bucket, 3)}})
	files := plan.Files{Staging: make([]plan.Listing, 1)}
	for _, day := range training {
		for b := range int64(2) {
			files.Training.Files = append(files.Training.Files, File(fmt.Sprintf("train/%d/%d", day, b), day, b, 100, 1))
		}
	}
	for _, day := range staging {
		for b := range int64(3) {
			files.Staging[0].Files = append(files.Staging[0].Files, Staged(fmt.Sprintf("history/%d/%d", day, b), 0, 1000, day, b))
		}
	}
	return []*catalog.Table{t, s}, files
}

// Training returns a training table with a day partition and n buckets.
func Training(n int) *catalog.Table {
	return &catalog.Table{
		Name: "ml.train",
		Pin:  dataset.TablePin{UUID: "t", Snapshot: 1},
		Fields: []catalog.Field{
			{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
			{ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64},
		},
		Specs: map[int]catalog.Spec{0: {
			{ID: 1000, Source: 2, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}},
			{ID: 1001, Source: 1, Name: "bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: n}},
		}},
	}
}

// File returns a training file; b is a bucket or nil, day an int64 or nil.
func File(name string, day, b any, rows, sequence int64) catalog.File {
	f := catalog.File{Location: name, Bytes: rows, Rows: rows, Sequence: sequence, Partition: []any{day, b}}
	if d, ok := day.(int64); ok {
		f.Ranges = map[int]expr.Range{2: {Lower: expr.Int(d), Upper: expr.Int(d), HasLower: true, HasUpper: true, Rows: rows}}
	}
	return f
}
