package scenario

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// Shard is what one shard of a query gave.
type Shard struct {
	Schema  *arrow.Schema // of the batches as they came
	Batches [][][]any     // values by batch, row and column, see Values
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

// Read plans a query and reads each of its shards to the end.
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
	reading := loader.ReadingOf(q)
	indexes := []int{reading.Shard.Index}
	if reading.Shard.Index == dataset.AllShards {
		indexes = indexes[:0]
		for i := range reading.Shard.Of {
			indexes = append(indexes, i)
		}
	}
	var shards []Shard
	for _, i := range indexes {
		reading.Shard.Index = i
		stream, err := l.Open(ctx, p, reading)
		if err != nil {
			return nil, err
		}
		shard, err := drain(stream, between)
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

func drain(stream loader.Stream, between func(loader.Stream)) (Shard, error) {
	defer stream.Release()
	shard := Shard{Schema: stream.Schema()}
	for between(stream); stream.Next(); between(stream) {
		shard.Batches = append(shard.Batches, Values(stream.RecordBatch()))
		shard.Cursors = append(shard.Cursors, stream.Cursor())
	}
	shard.Report = stream.Report()
	return shard, stream.Err()
}
