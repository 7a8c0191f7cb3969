package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// local answers from a config file, in process.
type local struct{ *engine }

func (p process) openLocal(ctx context.Context, file string) (source, error) {
	c, err := p.load(file, nil)
	if err != nil {
		return nil, err
	}
	e, err := assemble(ctx, c)
	if err != nil {
		return nil, err
	}
	return local{e}, nil
}

// Datasets implements source.
func (l local) Datasets(ctx context.Context) ([]listed, error) {
	var out []listed
	for _, d := range l.Loader.Datasets() {
		one := listed{name: d.Name, rows: -1}
		p, err := l.Plan(ctx, dataset.Query{Dataset: d.Name})
		if err == nil {
			one.schema, err = p.Schema(nil, dataset.WirePlain)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if one.err = fault.As(err); err == nil {
			one.staging = slices.Sorted(maps.Keys(p.Pin.Staging))
			if rows, exact := p.ExactRows(); exact {
				one.rows = rows
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// Explain implements source.
func (l local) Explain(ctx context.Context, query []byte) (string, error) {
	q, err := dataset.ParseQuery(query)
	if err != nil {
		return "", err
	}
	p, err := l.Plan(ctx, q)
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

// Verify implements source.
func (l local) Verify(ctx context.Context, query []byte) (*loader.Verification, error) {
	q, err := dataset.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	return l.Loader.Verify(ctx, q)
}

// Open implements source.
func (l local) Open(ctx context.Context, query []byte) (*shards, error) {
	q, err := dataset.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	p, err := l.Plan(ctx, q)
	if err != nil {
		return nil, err
	}
	reading := loader.ReadingOf(q)
	out := &shards{}
	if out.schema, err = p.Schema(q.Columns, q.Wire); err != nil {
		return nil, err
	}
	first, last := reading.Shard.Index, reading.Shard.Index
	if first == dataset.AllShards {
		first, last = 0, reading.Shard.Of-1
	}
	for i := first; i <= last; i++ {
		one := reading
		one.Shard.Index = i
		out.open = append(out.open, func() (stream, error) {
			opened, err := l.Loader.Open(ctx, p, one)
			if err != nil {
				return nil, err
			}
			return localStream{opened}, nil
		})
	}
	return out, nil
}

// localStream is a loader's stream with the report in its wire form, so that
// both sources say the same.
type localStream struct{ loader.Stream }

// Report implements stream.
func (s localStream) Report() (report, error) {
	text, err := json.Marshal(s.Stream.Report())
	if err != nil {
		return report{}, fault.New(fault.Internal, "write the stream's report: %w", err)
	}
	return parseReport(text)
}
