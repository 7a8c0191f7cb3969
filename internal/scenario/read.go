package scenario

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Shard is what one shard of a query gave.
type Shard struct {
	Schema  *arrow.Schema // of the batches as they came; of grouped ones, that of the plain ones
	Batches [][][]any     // values by batch, row and column, see Values and Ungrouped
	Cursors []dataset.Cursor
	Report  loader.Report
}

// Rows returns the rows of all batches, in order.
func (s Shard) Rows() [][]any {
	var rows [][]any
	for _, b := range s.Batches {
		rows = append(rows, b...)
	}
	return rows
}

// rowsByName returns the rows of all batches, their columns in the order of their names:
// of wire: auto each stream of a query has a form of its own.
func (s Shard) rowsByName() [][]any {
	fields := Expanded(s.Schema).Fields()
	order := make([]int, len(fields))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(fields[a].Name, fields[b].Name) })
	rows := s.Rows()
	for i := range rows {
		rows[i] = permuted(rows[i], order)
	}
	return rows
}

// Read plans a query and reads each of its shards to the end; of endpoints: splits,
// each endpoint as if it were a shard.
func Read(ctx context.Context, l *loader.Loader, q dataset.Query) ([]Shard, error) {
	return ReadBetween(ctx, l, q, func(loader.Stream) {})
}

// ReadBetween is Read that calls between before each Next, and before the report
// is asked for.
func ReadBetween(ctx context.Context, l *loader.Loader, q dataset.Query, between func(loader.Stream)) ([]Shard, error) {
	p, err := l.Plan(ctx, q)
	if err != nil {
		return nil, err
	}
	counts, err := l.Count(ctx, p, loader.StreamOptions{Reading: q.Defaults().Reading}, anybody)
	if err != nil {
		return nil, err
	}
	var shards []Shard
	for _, reading := range readings(p, q.Defaults()) {
		reading.Counts = counts
		stream, err := l.Open(ctx, p, reading)
		if err != nil {
			return nil, err
		}
		shard, err := drain(stream, between, plainOf(p, q))
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

// readings returns what the endpoints of a query read.
func readings(p *plan.Plan, q dataset.Query) []loader.StreamOptions {
	reading := loader.StreamOptions{Reading: q.Defaults().Reading}
	if q.Endpoints.BySplits() {
		return parts(p, q, reading)
	}
	if reading.Shard.Index != dataset.AllShards {
		return []loader.StreamOptions{reading}
	}
	var all []loader.StreamOptions
	for i := range reading.Shard.Of {
		reading.Shard.Index = i
		all = append(all, reading)
	}
	return all
}

// parts returns a reading for each part of the plan, from the query's cursor on.
func parts(p *plan.Plan, q dataset.Query, reading loader.StreamOptions) []loader.StreamOptions {
	reading.Shard.Index = 0
	begin := 0
	if len(q.Cursor) > 0 {
		begin = q.Cursor[0].At[0].Range
	}
	var all []loader.StreamOptions
	for _, part := range p.PartsFrom(begin) {
		if reading.Part = part; part.From > begin {
			reading.Cursor = nil
		}
		all = append(all, reading)
	}
	return all
}

// anybody is let in to count.
func anybody(ctx context.Context) (in context.Context, leave func(), err error) {
	return ctx, func() {}, nil
}

// plainOf returns the schema of the plain batches that grouped ones stand for; nil if the
// query asks for others.
func plainOf(p *plan.Plan, q dataset.Query) *arrow.Schema {
	if !q.Wire.Grouped() {
		return nil
	}
	schema, err := p.Schema(q.Selection(), dataset.WirePlain)
	if err != nil {
		return nil // the stream fails for the same reason
	}
	return schema
}

// drain reads a stream, whose batches are grouped if grouped is there.
func drain(stream loader.Stream, between func(loader.Stream), grouped *arrow.Schema) (Shard, error) {
	defer stream.Release()
	if err := stream.Begin(); err != nil {
		return Shard{}, err
	}
	shard := Shard{Schema: stream.Schema()}
	if grouped != nil {
		shard.Schema = grouped
	}
	for between(stream); stream.Next(); between(stream) {
		if grouped == nil {
			shard.Batches = append(shard.Batches, Values(stream.RecordBatch()))
		} else {
			rows, err := Ungrouped(stream.RecordBatch(), grouped)
			if err != nil {
				return Shard{}, err
			}
			shard.Batches = append(shard.Batches, rows)
		}
		shard.Cursors = append(shard.Cursors, stream.Cursor())
	}
	shard.Report = stream.Report()
	return shard, stream.Err()
}
