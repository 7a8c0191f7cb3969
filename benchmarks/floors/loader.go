package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/stream"
)

// readyLoader is a loader whose streams cost nothing: what remains is the cost of the product's
// Flight server. Its datasets are named like the forms.
type readyLoader struct {
	forms   map[string]ready
	batches int // of a stream
}

// Datasets implements flight.Loader.
func (l readyLoader) Datasets() (all []dataset.Dataset) {
	for _, name := range slices.Sorted(maps.Keys(l.forms)) {
		all = append(all, dataset.Dataset{Name: name, Key: []string{"request_id"}, Training: dataset.Training{Table: name}})
	}
	return all
}

// PlanFor implements flight.Loader. The plan has one lane and no splits.
func (l readyLoader) PlanFor(_ context.Context, request loader.PlanRequest) (loader.Planned, error) {
	query := request.Query
	all := l.Datasets()
	i := slices.IndexFunc(all, func(d dataset.Dataset) bool { return d.Name == query.Dataset })
	if i < 0 {
		return loader.Planned{}, fmt.Errorf("no dataset %q", query.Dataset)
	}
	none := plan.Bound{Algorithm: 1, Relation: &resolve.Relation{Training: &catalog.Table{}}}
	p := &plan.Plan{Bound: none, ID: query.Dataset, FilesID: query.Dataset, Digest: all[i].Digest(), Lanes: []plan.Lane{{}}, Inexact: "the batches are ready"}
	return loader.Planned{Plan: p, Query: query.Defaults(), BatchRows: int(l.forms[query.Dataset].at(0).NumRows())}, nil
}

// Count implements flight.Loader.
func (readyLoader) Count(_ context.Context, p loader.Planned, _ loader.StreamOptions, _ loader.Admit) (*dataset.Counts, error) {
	return p.KnownCounts()
}

// Open implements flight.Loader.
func (l readyLoader) Open(_ context.Context, p loader.Planned, _ loader.StreamOptions) (loader.Stream, error) {
	return &readyStream{ready: l.forms[p.Query.Dataset], left: l.batches, cursor: dataset.Cursor{Version: 1, Plan: p.ID, Algorithm: plan.Algorithm, Rows: p.Query.Rows, Shard: p.Query.Shard}}, nil
}

// readyStream is a stream of ready batches. It is never parked, since it holds nothing.
type readyStream struct {
	ready
	left, sent int
	rows       int64
	cursor     dataset.Cursor
}

// Next implements array.RecordReader.
func (s *readyStream) Next() bool {
	if s.left == 0 {
		return false
	}
	s.left--
	s.sent++
	s.rows += s.BatchRows()
	s.cursor.Step++
	s.cursor.Given = s.rows
	return true
}

// RecordBatch implements array.RecordReader.
func (s *readyStream) RecordBatch() arrow.RecordBatch { return s.at(s.sent - 1) }

// Record implements array.RecordReader.
func (s *readyStream) Record() arrow.RecordBatch { return s.RecordBatch() }

// Schema implements array.RecordReader.
func (s *readyStream) Schema() *arrow.Schema { return s.schema }

// Err implements array.RecordReader.
func (*readyStream) Err() error { return nil }

// Retain implements array.RecordReader.
func (*readyStream) Retain() {}

// Release implements array.RecordReader.
func (*readyStream) Release() {}

// Begin implements loader.Stream.
func (*readyStream) Begin() error { return nil }

// BatchRows implements loader.Stream.
func (s *readyStream) BatchRows() int64 { return s.RecordBatch().NumRows() }

// Cursor implements loader.Stream.
func (s *readyStream) Cursor() dataset.Cursor { return s.cursor }

// Report implements loader.Stream.
func (s *readyStream) Report() stream.Report {
	return stream.Report{Rows: s.rows, Batches: int64(s.sent), Steps: int64(s.sent), Cursor: s.cursor}
}

// Park implements loader.Stream.
func (*readyStream) Park(bool) bool { return false }

// SetBack implements loader.Stream.
func (*readyStream) SetBack() bool { return false }
