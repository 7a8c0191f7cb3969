package main

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// The tables of docs/quickstart.md: requests of eight items, and the bucket counts.
const (
	requests        = 5000
	itemsPerRequest = 8
	trainingBuckets = 8
	historyBuckets  = 4
	deviceBuckets   = 6
)

// layout is how a table is partitioned: by bucket(buckets, key), and before that by day if it has days.
type layout struct {
	name, key string
	buckets   int
	days      bool
}

// table returns the table of a layout.
func (l layout) table() *catalog.Table {
	t := &catalog.Table{
		Name: l.name,
		Pin:  dataset.TablePin{UUID: l.name, Snapshot: 1},
		Fields: []catalog.Field{
			{ID: 1, Name: l.key, Type: arrow.BinaryTypes.String},
			{ID: 2, Name: "day", Type: arrow.PrimitiveTypes.Int64},
		},
	}
	var spec catalog.Spec
	if l.days {
		spec = append(spec, catalog.PartitionField{ID: 1000, Source: 2, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}})
	}
	t.Specs = map[int]catalog.Spec{0: append(spec, catalog.PartitionField{ID: 1001, Source: 1, Name: "bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: l.buckets}})}
	return t
}

// file returns a data file of a partition.
func file(name string, rows int64, partition ...any) catalog.File {
	return catalog.File{Location: name, Bytes: rows, Rows: rows, Sequence: 1, Partition: partition}
}

// files returns one file for each bucket, with the rows in it.
func (l layout) files(rows []int64) []catalog.File {
	var out []catalog.File
	for b, n := range rows {
		out = append(out, file(fmt.Sprintf("%s/%d", l.name, b), n, int64(b)))
	}
	return out
}

// rowsOf returns how many of the quickstart's requests are in each bucket, times the rows of a request.
func rowsOf(buckets int, each int64) ([]int64, error) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for request := range requests {
		b.Append(fmt.Sprintf("r%05d", request))
	}
	numbers, err := bucket.Array(nil, b.NewArray(), buckets)
	if err != nil {
		return nil, fmt.Errorf("assign requests to %d buckets: %w", buckets, err)
	}
	rows := make([]int64, buckets)
	for _, n := range numbers {
		rows[n] += each
	}
	return rows, nil
}

// quickstart plans a query of the quickstart's dataset.
func quickstart(q dataset.Query) (*plan.Plan, error) {
	layouts := []layout{
		{name: "ml.impressions", key: "request_id", buckets: trainingBuckets},
		{name: "features.user_history", key: "request_id", buckets: historyBuckets},
		{name: "features.device", key: "request_id", buckets: deviceBuckets},
	}
	var tables []*catalog.Table
	var listings []plan.Listing
	d := dataset.Dataset{Name: "clicks", Key: []string{"request_id"}, Training: dataset.Training{Table: layouts[0].name}}
	for i, l := range layouts {
		each := int64(itemsPerRequest)
		if i > 0 {
			each = 1
			d.Staging = append(d.Staging, dataset.Staging{Table: l.name, Columns: []dataset.Column{}})
		}
		rows, err := rowsOf(l.buckets, each)
		if err != nil {
			return nil, err
		}
		tables, listings = append(tables, l.table()), append(listings, plan.Listing{Files: l.files(rows)})
	}
	return planned(d, tables, plan.Files{Training: listings[0], Staging: listings[1:]}, q)
}

// planned plans a query of a dataset over known files.
func planned(d dataset.Dataset, tables []*catalog.Table, files plan.Files, q dataset.Query) (*plan.Plan, error) {
	r, err := resolve.Bind(d.Defaults(), tables[0], tables[1:])
	if err != nil {
		return nil, err
	}
	b, err := plan.Bind(r, q.Defaults().Rows)
	if err != nil {
		return nil, err
	}
	return plan.Build(b, files)
}
