package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/compute"
	"github.com/penstock/penstock/cmd/penstock/duckdb"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/stage"
)

// tableFlags are the flags that name a table, or SQL over tables, whose rows are staged instead of
// the rows of files.
type tableFlags struct {
	sql                                   *string
	compute                               *[]string // columns that are added to the rows
	table, ref, snapshot, columns, filter *string
}

// sourceTableFlags adds the flags.
func (f *tableFlags) sourceTableFlags(c *cobra.Command) {
	f.sql = cmdline.Text(c, "sql", "SELECT", "compute the rows with DuckDB, over tables and files: a SELECT, or @FILE, or - for standard input")
	f.compute = cmdline.Texts(c, "compute", "NAME=EXPRESSION", "a column that is computed from the others, as in 'ctr = clicks / nullif(views, 0)'; may be repeated")
	f.table = cmdline.Text(c, "from-table", "TABLE", "read the rows of this table instead of files: [catalog.]namespace.table")
	f.ref = cmdline.Text(c, "from-ref", "REF", "the branch or tag of --from-table to read (default main)")
	f.snapshot = cmdline.Text(c, "from-snapshot", "ID", "the snapshot of --from-table to read")
	f.columns = cmdline.Text(c, "columns", "COLUMNS", "the columns of --from-table to stage, and those of --compute, separated by commas (default: all)")
	cmdline.SetInside(c, "from-table", "from-ref", "columns")
	f.filter = cmdline.Text(c, "filter", "EXPRESSION", "the rows of --from-table to read, as in \"day = '2026-11-01'\" (default: all)")
}

// check returns an error for flags that cannot be combined.
func (f *tableFlags) check(files fileFlags) error {
	if *f.sql != "" && len(*f.compute) > 0 {
		return cmdline.Errorf("--sql computes all columns: write those of --compute in the SQL")
	}
	if *f.sql != "" && *f.table != "" {
		return cmdline.Errorf("--sql and --from-table both name rows: give one of them")
	}
	if *f.table == "" {
		if *f.ref+*f.snapshot+*f.columns+*f.filter != "" {
			return cmdline.Errorf("--from-ref, --from-snapshot, --columns and --filter are for --from-table")
		}
		if len(files.files) == 0 && *f.sql == "" {
			return cmdline.Errorf("penstock stage needs a table and at least one file or folder, or --from-table or --sql")
		}
	}
	if *f.table+*f.sql != "" && (len(files.files) > 0 || *files.stdinFormat+*files.schema != "" || files.noFolderColumns) {
		if *f.sql != "" {
			return cmdline.Errorf("--sql names its files in the SQL: leave files, --schema, --input-format and --no-folder-columns out")
		}
		return cmdline.Errorf("--from-table reads a table: leave files, --schema, --input-format and --no-folder-columns out")
	}
	return nil
}

// staged returns the columns of --columns; nil: all.
func (f *tableFlags) staged() []string { return namesIn(*f.columns) }

// query returns the query that reads the table.
func (f *tableFlags) query(computed []compute.Column) ([]byte, error) {
	training := map[string]any{"table": *f.table}
	if *f.ref != "" {
		training["ref"] = *f.ref
	}
	if *f.snapshot != "" {
		training["snapshot"] = json.Number(*f.snapshot)
	}
	if *f.filter != "" {
		training["filter"] = *f.filter
	}
	query := map[string]any{"dataset": map[string]any{"training": training}}
	if columns := f.staged(); columns != nil {
		query["columns"] = compute.Reads(computed, columns)
	}
	text, err := json.Marshal(query)
	if err != nil {
		return nil, cmdline.Errorf("--from-snapshot %s: want the number of a snapshot", *f.snapshot)
	}
	return text, nil
}

// tableSource plans and reads queries, in process or on a server.
type tableSource interface {
	// plan returns the pin of a query's training table, and the schema of the query's rows.
	plan(ctx context.Context, query []byte) (dataset.TablePin, *arrow.Schema, error)
	// rows returns the rows of a query, and reports their number to found. The caller releases them.
	rows(ctx context.Context, query []byte, found func(rows int64, left int)) (array.RecordReader, error)
}

// rows returns the rows of the table. The caller releases them.
func (f *tableFlags) rows(ctx context.Context, from tableSource, computed []compute.Column, found func(rows int64, left int)) (array.RecordReader, error) {
	text, err := f.query(computed)
	if err != nil {
		return nil, err
	}
	rows, err := from.rows(ctx, text, found)
	return rows, fault.Op(err, "read table %s", *f.table)
}

// localTables reads tables in process.
type localTables struct{ *engine.Engine }

func (l localTables) open(ctx context.Context, text []byte) (loader.Planned, loader.Stream, error) {
	query, err := decode.Query(text)
	if err != nil {
		return loader.Planned{}, nil, err
	}
	query.Shard = dataset.Shard{Of: 1} // one shard has all rows
	plan, err := l.Loader.PlanFor(ctx, loader.PlanRequest{Query: query.Defaults()})
	if err != nil {
		return plan, nil, err
	}
	rows, err := l.Loader.Open(ctx, plan, loader.StreamOptions{})
	return plan, rows, err
}

// plan implements tableSource.
func (l localTables) plan(ctx context.Context, query []byte) (dataset.TablePin, *arrow.Schema, error) {
	plan, rows, err := l.open(ctx, query)
	if err != nil {
		return dataset.TablePin{}, nil, err
	}
	defer rows.Release()
	return plan.Rows.Pin.Training, rows.Schema(), nil
}

// rows implements tableSource.
func (l localTables) rows(ctx context.Context, query []byte, found func(rows int64, left int)) (array.RecordReader, error) {
	plan, rows, err := l.open(ctx, query)
	if err != nil {
		return nil, err
	}
	found(plan.StoredRows, 0)
	return rows, nil
}

// remoteTables reads tables from a server.
type remoteTables struct{ *client.Client }

// plan implements tableSource.
func (r remoteTables) plan(ctx context.Context, query []byte) (dataset.TablePin, *arrow.Schema, error) {
	text, schema, err := r.Plan(ctx, query)
	if err != nil {
		return dataset.TablePin{}, nil, err
	}
	var summary flight.PlanSummary
	if err := json.Unmarshal(text, &summary); err != nil {
		return dataset.TablePin{}, nil, fault.New(fault.Internal, "read the summary of a plan: %w", err)
	}
	return summary.Pin.Training, schema, nil
}

// rows implements tableSource.
func (r remoteTables) rows(ctx context.Context, query []byte, found func(rows int64, left int)) (array.RecordReader, error) {
	rows, err := r.Open(ctx, query)
	if err != nil {
		return nil, err
	}
	found(max(rows.Planned, 0), 0)
	return batch.FromFunc(rows.Schema, func() (arrow.RecordBatch, error) {
		if !rows.Next() {
			return nil, rows.Err()
		}
		rows.RecordBatch().Retain()
		return rows.RecordBatch(), nil
	}, rows.Release), nil
}

// sqlTables provides tables to DuckDB.
type sqlTables struct{ tableSource }

// Pin implements duckdb.Source.
func (s sqlTables) Pin(ctx context.Context, table string) (duckdb.State, error) {
	query, err := json.Marshal(map[string]any{"dataset": map[string]any{"training": map[string]any{"table": table}}})
	if err != nil {
		return duckdb.State{}, err
	}
	pin, schema, err := s.plan(ctx, query)
	return duckdb.State{Pin: pin, Schema: schema}, err
}

// Rows implements duckdb.Source.
func (s sqlTables) Rows(ctx context.Context, table string, at duckdb.State, columns []string) (array.RecordReader, error) {
	query, err := json.Marshal(map[string]any{
		"dataset": map[string]any{"training": map[string]any{"table": table}}, "columns": columns,
		"snapshots": dataset.Pin{Training: at.Pin},
	})
	if err != nil {
		return nil, err
	}
	return s.rows(ctx, query, func(int64, int) {})
}

// computedRows adds the columns of --compute to the rows that open returns.
func (c *stageCall) computedRows(b *budget.Budget, open func([]compute.Column) (array.RecordReader, error)) (array.RecordReader, error) {
	computed, err := compute.Parse(*c.from.compute)
	if err != nil {
		return nil, err
	}
	rows, err := open(computed)
	if err != nil || len(computed) == 0 {
		return rows, err
	}
	return compute.Rows(rows, computed, c.from.staged(), b)
}

// sqlRows returns the rows that the SQL computes, and names them in the call. The caller releases them.
func (c *stageCall) sqlRows(ctx context.Context, from tableSource, o duckdb.RowsOptions) (array.RecordReader, error) {
	text, err := cmdline.Read("sql", *c.from.sql, c.stdin)
	if err != nil {
		return nil, err
	}
	program, err := duckdb.Find(ctx)
	if err != nil {
		return nil, err
	}
	o.Source = sqlTables{from}
	rows, err := program.Open(ctx, string(text), o)
	if err != nil {
		return nil, err
	}
	c.RowsID = rows.ID
	return rows, nil
}

// readersText describes how datasets read a table after a change, with one line for each entry. It
// returns unread if there are no datasets, and "" if they were not checked.
func readersText(readers []stage.ReaderCheck, unread string) string {
	if readers == nil {
		return ""
	}
	if len(readers) == 0 {
		return unread + "\n"
	}
	var b strings.Builder
	for _, r := range readers {
		fmt.Fprintf(&b, "dataset %s: %s\n", r.Dataset, readerState(r))
		if r.Warning != "" {
			fmt.Fprintf(&b, "  warning: %s\n", r.Warning)
		}
		if measuredAlone(r) {
			fmt.Fprintf(&b, "  the dataset %s\n", unreadableBefore(r, ""))
		}
	}
	return b.String()
}

// readerState describes how an entry of a dataset reads a table.
func readerState(r stage.ReaderCheck) string {
	entry, at := "", ""
	if r.Branch != "" {
		at = ", at branch " + r.Branch + " instead of main"
	}
	if r.Entry != "" {
		entry = " (" + r.Entry + at + ")"
	}
	switch {
	case measuredAlone(r):
	case r.Failure != nil && r.Failure.Before:
		return unreadableBefore(r, entry)
	case r.Failure != nil:
		return "can no longer be read" + entry + ": " + r.Failure.Message
	case r.NotMeasured != "":
		return r.NotMeasured + entry
	case r.Entry == "":
		return "can be read" + at + "; the table is its training table"
	case r.Rows == 1:
		return fmt.Sprintf("%d of 1 sampled row matches", r.Matched) + entry
	}
	return fmt.Sprintf("%.4g%% of %d sampled rows match", 100*float64(r.Matched)/float64(r.Rows), r.Rows) + entry
}

// measuredAlone reports whether the match rate of an entry is known although its dataset cannot be read, and could not be read before
// the change either.
func measuredAlone(r stage.ReaderCheck) bool {
	return r.Rows > 0 && r.Failure != nil && r.Failure.Before
}

// unreadableBefore says why a dataset cannot be read, and could not be read before a change either.
func unreadableBefore(r stage.ReaderCheck, entry string) string {
	text := "cannot be read, and could not be read before the change" + entry + ": " + r.Failure.Message
	if r.Failure.Remedy != "" {
		text += "; " + r.Failure.Remedy
	}
	return text
}

// brokenError is the error of a change that is made, and after which a dataset can no longer be read.
type brokenError struct{ error }

// Unwrap returns the error.
func (e brokenError) Unwrap() error { return e.error }

// brokenReaders returns a brokenError if a change has made a dataset unreadable. made says that the
// change is made, and back is the command that takes it back; "" if there is none.
func brokenReaders(readers []stage.ReaderCheck, made, back string) error {
	for _, r := range readers {
		if !r.Broken() {
			continue
		}
		e := fault.New(fault.Invalid, "%s, and dataset %s can no longer be read: %s", made, r.Dataset, r.Failure.Message)
		remedy := r.Failure.Remedy
		if back != "" {
			if remedy != "" {
				remedy += "; or "
			}
			remedy += "take " + back
		}
		return brokenError{e.WithRemedy("%s", remedy)}
	}
	return nil
}
