package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// lake is a dataset with one staging table. Its plans are made by the server's planner.
type lake struct {
	name string
	// plan makes a plan by an algorithm.
	plan func(ctx context.Context, rows dataset.Rows, algorithm int) (*plan.Plan, error)
	// trainingBytes and stagingBytes are the stored bytes of the columns that a stream reads, by the location of the file.
	trainingBytes, stagingBytes map[string]int64
}

// opened returns the lake of a training table and bench.staging in a folder of dealing_tables.py or tables.py.
func opened(ctx context.Context, folder, table string) (*lake, error) {
	home, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	tables, err := icebergcat.Open(ctx, icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///" + filepath.Join(home, "catalog.db"), BaseDir: home, Store: store.Local{},
	})
	if err != nil {
		return nil, err
	}
	planner := loader.New(loader.Options{Catalog: tables})
	d := dataset.Dataset{
		Key: []string{"request_id"}, Training: dataset.Training{Table: "bench." + table}, Staging: []dataset.Staging{{Table: "bench.staging"}},
	}.Defaults()
	query := func(rows dataset.Rows) dataset.Query {
		rows.Inline = &d
		return dataset.Query{Rows: rows, Reading: dataset.Reading{BatchRows: max(1, rows.Lanes)}}.Defaults()
	}
	l := &lake{name: table, plan: func(ctx context.Context, rows dataset.Rows, algorithm int) (*plan.Plan, error) {
		q := query(rows)
		q.Algorithm = algorithm
		p, err := planner.PlanFor(ctx, loader.PlanRequest{Query: q})
		return p.Plan, err
	}}
	p, err := planner.Plan(ctx, query(dataset.Rows{Lanes: 1}))
	if err != nil {
		return nil, err
	}
	sizes, err := planner.ColumnSizes(ctx, p)
	if err != nil {
		return nil, err
	}
	l.trainingBytes, l.stagingBytes = sizes.Training, sizes.Staging[0]
	return l, nil
}

// layout describes a lake that exists only in memory: rows of requests that are ordered by time, in buckets of the request, and
// perhaps in partitions of days.
type layout struct {
	name          string
	rows          int64
	days          int     // 1: no day partitions
	skew          float64 // the share of all requests that bucket 0 has in addition to its own
	trainingBytes float64 // per row
	stagingBytes  float64 // of the whole staging table, which has the same buckets and no days, per training row
}

const (
	buckets    = 16
	requestLen = 5 // rows of each request
)

// drawn returns the lake of a layout.
func (l layout) drawn() (*lake, error) {
	training := &catalog.Table{
		Name: "bench.t", Pin: dataset.TablePin{UUID: "t", Snapshot: 1}, Fields: []catalog.Field{{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64}},
		Specs: map[int]catalog.Spec{0: {identity("day", 2), bucketOf()}},
	}
	staging := &catalog.Table{
		Name: "bench.staging", Pin: dataset.TablePin{UUID: "s", Snapshot: 1}, Fields: []catalog.Field{{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "v", Type: arrow.PrimitiveTypes.Int64}},
		Specs: map[int]catalog.Spec{0: {bucketOf()}},
	}
	files := plan.Files{Staging: make([]plan.Listing, 1)}
	made := &lake{name: l.name, trainingBytes: map[string]int64{}, stagingBytes: map[string]int64{}}
	requests := shares(l.rows/requestLen, l.skew)
	for day := range l.days {
		for b, all := range requests {
			n := requestLen * (all*int64(day+1)/int64(l.days) - all*int64(day)/int64(l.days))
			n += requestLen * uneven(day, b, n/requestLen)
			f := catalog.File{Location: fmt.Sprintf("train/%d/%d", day, b), Bytes: int64(l.trainingBytes * float64(n)), Rows: n, Sequence: 1, Partition: []any{int64(day), int64(b)}}
			files.Training.Files = append(files.Training.Files, f)
			made.trainingBytes[f.Location] = f.Bytes
		}
	}
	for b, all := range requests {
		f := catalog.File{Location: fmt.Sprintf("staging/%d", b), Bytes: int64(l.stagingBytes * float64(requestLen*all)), Rows: all, Sequence: 1, Partition: []any{int64(b)}}
		files.Staging[0].Files = append(files.Staging[0].Files, f)
		made.stagingBytes[f.Location] = f.Bytes
	}
	d := dataset.Dataset{Key: []string{"request_id"}, Training: dataset.Training{Table: "bench.t"}, Staging: []dataset.Staging{{Table: "bench.staging"}}}
	r, err := resolve.Bind(d.Defaults(), training, []*catalog.Table{staging})
	if err != nil {
		return nil, err
	}
	made.plan = func(_ context.Context, rows dataset.Rows, algorithm int) (*plan.Plan, error) {
		b, err := plan.Bind(r, dataset.Query{Rows: rows}.Defaults().Rows)
		if err != nil {
			return nil, err
		}
		b.Algorithm = algorithm
		return plan.Build(b, files)
	}
	return made, nil
}

// shares divides requests among buckets.
func shares(requests int64, skew float64) []int64 {
	out := make([]int64, buckets)
	for b := range out {
		share := (1 - skew) / buckets
		if b == 0 {
			share += skew
		}
		out[b] = int64(share * float64(requests))
	}
	return out
}

// uneven returns by how many requests a bucket of a day differs from its expected number. Real buckets differ by about the square
// root of their sizes.
func uneven(day, bucket int, requests int64) int64 {
	deviation := float64(hashed(fmt.Sprint("uneven", day, bucket))%2001)/1000 - 1
	root := int64(1)
	for root*root < requests {
		root++
	}
	return int64(1.7 * deviation * float64(root)) // 1.7: the root of 3, since a uniform deviation is smaller than a normal one
}

func identity(name string, source int) catalog.PartitionField {
	return catalog.PartitionField{ID: 1000 + source, Source: source, Name: name, Transform: catalog.Transform{Kind: catalog.Identity}}
}

func bucketOf() catalog.PartitionField {
	return catalog.PartitionField{ID: 1001, Source: 1, Name: "bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: buckets}}
}
