package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// Shard is the result of reading one shard of a query.
type Shard struct {
	Schema  *arrow.Schema // of the batches; for grouped batches: of the plain batches that they represent
	Batches [][][]any     // values by batch, row and column, see Values and Ungrouped
	Cursors []dataset.Cursor
	Report  stream.Report
}

// Rows returns the rows of all batches, in order.
func (s Shard) Rows() [][]any {
	var rows [][]any
	for _, b := range s.Batches {
		rows = append(rows, b...)
	}
	return rows
}

// rowsByName returns the rows of all batches with their columns sorted by name: with wire: auto,
// the order may differ from stream to stream.
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

// Read plans a query and reads each of its shards to the end. With endpoints: splits, it
// reads each endpoint like a shard.
func Read(ctx context.Context, l *loader.Loader, q dataset.Query) ([]Shard, error) {
	return ReadBetween(ctx, l, q, func(loader.Stream) {})
}

// ReadBetween is like Read, and calls between before each Next and before Report.
func ReadBetween(ctx context.Context, l *loader.Loader, q dataset.Query, between func(loader.Stream)) ([]Shard, error) {
	return readAs(ctx, l, q, func(s loader.Stream) loader.Stream { return s }, between)
}

// ReadAs is like Read, but passes each stream to `as`, and reads the stream that `as` returns.
func ReadAs(ctx context.Context, l *loader.Loader, q dataset.Query, as func(loader.Stream) loader.Stream) ([]Shard, error) {
	return readAs(ctx, l, q, as, func(loader.Stream) {})
}

func readAs(ctx context.Context, l *loader.Loader, q dataset.Query, as func(loader.Stream) loader.Stream, between func(loader.Stream)) ([]Shard, error) {
	p, err := l.Plan(ctx, q)
	if err != nil {
		return nil, err
	}
	counts, err := l.Count(ctx, p, loader.StreamOptions{}, unlimitedEntry)
	if err != nil {
		return nil, err
	}
	var shards []Shard
	for _, one := range endpoints(p) {
		stream, err := l.Open(ctx, one.planned, loader.StreamOptions{Counts: counts, Part: one.part})
		if err != nil {
			return nil, err
		}
		shard, err := drain(as(stream), between, plainOf(p.Plan, q))
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

// endpoint is one endpoint of a planned query: a shard, or a part of the plan.
type endpoint struct {
	planned loader.Planned
	part    plan.Part
}

// endpoints returns the endpoints of a planned query.
func endpoints(p loader.Planned) []endpoint {
	if p.Query.Endpoints.BySplits() {
		return parts(p)
	}
	if p.Query.Shard.Index != dataset.AllShards {
		return []endpoint{{planned: p}}
	}
	var all []endpoint
	for i := range p.Query.Shard.Of {
		p.Query.Shard.Index = i
		all = append(all, endpoint{planned: p})
	}
	return all
}

// parts returns an endpoint for each part of the plan, starting at the query's cursor.
func parts(p loader.Planned) []endpoint {
	p.Query.Shard.Index = 0
	begin := 0
	if len(p.Query.Cursor) > 0 {
		begin = p.Query.Cursor[0].At[0].Range
	}
	var all []endpoint
	for _, part := range p.PartsFrom(begin) {
		if part.From > begin {
			p.Query.Cursor = nil
		}
		all = append(all, endpoint{planned: p, part: part})
	}
	return all
}

// unlimitedEntry admits every count.
func unlimitedEntry(ctx context.Context) (in context.Context, leave func(), err error) {
	return ctx, func() {}, nil
}

// plainOf returns the schema of the plain batches that grouped batches represent. It returns nil if
// the query does not ask for grouped batches.
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

// drain reads a stream to the end. If its batches are grouped, grouped is the schema of the plain
// batches that they represent.
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
		if err := CheckCategories(stream.RecordBatch()); err != nil {
			return Shard{}, err
		}
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

// ReadAsWorkers is like Read with several DataLoader workers per shard, whose batches are
// interleaved. It fails if the workers do not end at the same position.
func ReadAsWorkers(ctx context.Context, l *loader.Loader, q dataset.Query, workers int) ([]Shard, error) {
	if workers <= 1 {
		return Read(ctx, l, q)
	}
	var of [][]Shard // shards by worker
	for w := range workers {
		q.Every = dataset.Every{Step: w, Of: workers}
		shards, err := Read(ctx, l, q)
		if err != nil {
			return nil, err
		}
		of = append(of, shards)
	}
	together := make([]Shard, len(of[0]))
	for i := range together {
		var err error
		if together[i], err = inTurn(of, i); err != nil {
			return nil, err
		}
	}
	return together, nil
}

// inTurn interleaves the batches of a shard that its workers read.
func inTurn(of [][]Shard, shard int) (Shard, error) {
	last := of[len(of)-1][shard]
	out := Shard{Schema: last.Schema, Report: last.Report}
	out.Report.Rows, out.Report.Batches, out.Report.Skipped = 0, 0, 0
	for w := range of {
		r := of[w][shard].Report
		if got, want := r.Cursor.JSON(), last.Report.Cursor.JSON(); !slices.Equal(got, want) || r.Steps != last.Report.Steps {
			return Shard{}, fmt.Errorf("worker %d of %d ends at %s, the last one at %s", w, len(of), got, want)
		}
		if all, steps := r.Rows+r.Skipped, last.Report.Rows+last.Report.Skipped; all != steps {
			return Shard{}, fmt.Errorf("worker %d of %d gave or left out %d rows, the last one %d", w, len(of), all, steps)
		}
		out.Report.Rows, out.Report.Batches = out.Report.Rows+r.Rows, out.Report.Batches+r.Batches
	}
	for step := range last.Report.Steps {
		from, at := of[step%int64(len(of))][shard], int(step/int64(len(of)))
		if at >= len(from.Batches) {
			return Shard{}, fmt.Errorf("step %d of %d is missing", step, last.Report.Steps)
		}
		out.Batches, out.Cursors = append(out.Batches, from.Batches[at]), append(out.Cursors, from.Cursors[at])
	}
	if int64(len(out.Batches)) != out.Report.Batches {
		return Shard{}, fmt.Errorf("%d batches in %d steps", out.Report.Batches, len(out.Batches))
	}
	return out, nil
}
