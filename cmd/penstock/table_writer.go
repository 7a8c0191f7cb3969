package main

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/loader"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stage"
)

// Calls of clients that write rows at the same time: one for stageMemory of the budget, and at most maxStages.
const (
	stageMemory = 64 << 20
	maxStages   = 8
)

// stageCalls returns how many calls of clients may write rows at the same time.
func stageCalls(memory int64) int { return int(min(max(memory/stageMemory, 1), maxStages)) }

// tableWriter writes to the tables of an engine for the clients of a server.
type tableWriter struct {
	engine *engine
	stager *stage.Stager
}

// tableWriter returns what writes to tables for a number of clients at the same time.
func (e *engine) tableWriter(calls int) tableWriter {
	return tableWriter{engine: e, stager: e.stager(calls)}
}

// Writable implements flight.TableWriter.
func (w tableWriter) Writable(table string) error {
	c, name, err := w.engine.catalogOf(table)
	if err != nil {
		return err
	}
	return c.MayWrite(name)
}

// Stage implements flight.TableWriter.
func (w tableWriter) Stage(ctx context.Context, request stage.TableWrite, from flight.WriteSources, rows array.RecordReader) (stage.WriteResult, error) {
	if from.KeysOf != "" {
		keys := trainedKeys{engine: w.engine, of: from.KeysOf, staged: request.Table}
		request.OnlyKeys = func(ctx context.Context, key []arrow.Field) (stage.KeptKeys, error) {
			return keys.read(loader.For(ctx, from.KeysRights), key)
		}
	}
	if request.New.Like != "" {
		if err := w.engine.loader.CheckName(loader.For(ctx, from.LikeRights), request.New.Like); err != nil {
			return stage.WriteResult{}, err
		}
	}
	return w.stager.Stage(ctx, request, rows)
}

// Publish implements flight.TableWriter.
func (w tableWriter) Publish(ctx context.Context, table, branch string) (tablecommit.Move, error) {
	tables, name, err := w.engine.writes(table)
	if err != nil {
		return tablecommit.Move{}, err
	}
	return tables.Publish(ctx, name, branch)
}

// Undo implements flight.TableWriter.
func (w tableWriter) Undo(ctx context.Context, made tablecommit.Move) error {
	tables, name, err := w.engine.writes(made.Table)
	if err != nil {
		return err
	}
	made.Table = name
	return tables.Undo(ctx, made)
}
