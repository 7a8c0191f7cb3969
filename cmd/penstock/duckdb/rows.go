package duckdb

import (
	"context"
	"fmt"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/loader/dataset"
)

// Source reads the tables that queries name.
type Source interface {
	// Pin returns the current state of a table.
	Pin(ctx context.Context, table string) (State, error)
	// Rows returns the rows of some columns of a table at a state that Pin returned. The caller
	// releases the reader.
	Rows(ctx context.Context, table string, at State, columns []string) (array.RecordReader, error)
}

// State is the state of a table.
type State struct {
	Pin    dataset.TablePin
	Schema *arrow.Schema
}

// RowsOptions configure Open.
type RowsOptions struct {
	Source Source
	Spool  *spool.Spool // has the folder for the files of tables and results
	// Budget is charged for the rows that are being copied to files; nil: no limit.
	Budget *budget.Budget
	// Memory and Disk are as in Options.
	Memory, Disk int64
	// Opened is as in inputs.Options.
	Opened func(rows int64, left int)
}

// Rows are the rows that a query returns.
type Rows struct {
	// Reader computes the rows at its first Next.
	array.RecordReader
	// ID identifies the rows: rows with the same ID come from the same query of the same snapshots.
	// It is "" if the rows depend on more than that.
	ID string
}

// Open checks a query and pins its tables. Nothing but metadata is read before the first Next of
// the result. The caller releases the result.
//
// Errors: those of Parse and Describe, and of the source.
func (p Program) Open(ctx context.Context, sql string, o RowsOptions) (_ Rows, err error) {
	folder, err := o.Spool.CreateFolder("the tables of the SQL")
	if err != nil {
		return Rows{}, err
	}
	c := &computation{options: o, folder: folder, states: map[string]State{}}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if c.query, err = p.Parse(ctx, sql, Options{Folder: folder.Path(""), Memory: o.Memory, Disk: o.Disk}); err != nil {
		return Rows{}, err
	}
	id, err := c.pin(ctx)
	if err != nil {
		return Rows{}, err
	}
	empty, err := c.query.Describe(ctx, c.files)
	if err != nil {
		return Rows{}, err
	}
	rows, err := c.read(ctx, empty)
	if err != nil {
		return Rows{}, err
	}
	c.schema = optional(rows.Schema())
	rows.Release()
	return Rows{batch.FromFuncContext(ctx, c.schema, c.next, c.release), id}, nil
}

// computation computes the rows of a query.
type computation struct {
	options RowsOptions
	folder  *spool.Folder
	query   *Query
	states  map[string]State
	files   []Table // without rows, and after the first next with rows
	schema  *arrow.Schema
	rows    array.RecordReader // the result; nil before the first next
}

// pin pins the tables and writes a file without rows for each. It returns the ID of the rows.
func (c *computation) pin(ctx context.Context) (string, error) {
	var states []string
	for i, table := range c.query.Tables() {
		state, err := c.options.Source.Pin(ctx, table)
		if err != nil {
			return "", fault.Op(err, "find table %s of the SQL", table)
		}
		c.states[table] = state
		states = append(states, fmt.Sprintf("%s %s %d", table, state.Pin.UUID, state.Pin.Snapshot))
		file := Table{Name: table, File: c.folder.Path(fmt.Sprintf("table-%d-empty.parquet", i))}
		if err := c.write(file.File, state.Schema, nil); err != nil {
			return "", fault.Op(err, "provide table %s to DuckDB", table)
		}
		c.files = append(c.files, file)
	}
	if !c.query.Pinned() {
		return "", nil
	}
	return "sql " + digest.Of(append(states, c.query.Text())), nil
}

// write writes rows to a Parquet file; none if rows is nil.
func (c *computation) write(path string, schema *arrow.Schema, rows array.RecordReader) (err error) {
	file, err := c.folder.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	w, err := parquet.NewWriter(file, schema)
	if err != nil {
		return err
	}
	if rows != nil {
		if err := c.copyRows(w, rows); err != nil {
			return err
		}
	}
	return w.Close()
}

// copyRows writes all rows. The writer holds one row group, which is charged.
func (c *computation) copyRows(w *parquet.Writer, rows array.RecordReader) error {
	held, err := c.options.Budget.Reserve("a row group for DuckDB", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	group := int64(0)
	for rows.Next() {
		b := rows.RecordBatch()
		if err := held.Grow(batch.Size(b)); err != nil {
			return err
		}
		if err := w.Write(b); err != nil {
			return err
		}
		if group += b.NumRows(); group >= parquet.WriterGroupRows {
			group %= parquet.WriterGroupRows
			held.Shrink(held.Held())
		}
	}
	return rows.Err()
}

// next returns the next batch of the result, or nil at the end.
func (c *computation) next(ctx context.Context) (arrow.RecordBatch, error) {
	if c.rows == nil {
		if err := c.compute(ctx); err != nil {
			return nil, err
		}
	}
	if !c.rows.Next() {
		return nil, c.rows.Err()
	}
	b := c.rows.RecordBatch()
	return array.NewRecordBatch(c.schema, b.Columns(), b.NumRows()), nil
}

// optional returns a schema whose columns are all optional. DuckDB writes a column as required if it
// happens to know that none of the rows has a null.
func optional(s *arrow.Schema) *arrow.Schema {
	fields := s.Fields()
	for i := range fields {
		fields[i].Nullable = true
	}
	return arrow.NewSchema(fields, nil)
}

// compute reads the tables and runs the query.
func (c *computation) compute(ctx context.Context) error {
	for i, t := range c.files {
		if err := c.provide(ctx, i); err != nil {
			return fault.Op(err, "provide table %s to DuckDB", t.Name)
		}
	}
	path, err := c.query.Write(ctx, c.files)
	if err != nil {
		return err
	}
	rows, err := c.read(ctx, path)
	if err != nil {
		return err
	}
	if !optional(rows.Schema()).Equal(c.schema) {
		defer rows.Release()
		return fault.New(fault.Internal, "DuckDB returned columns %s with the rows, and %s before", rows.Schema(), c.schema)
	}
	c.rows = rows
	return nil
}

// provide writes the rows of a table to a file.
func (c *computation) provide(ctx context.Context, i int) error {
	t := &c.files[i]
	state := c.states[t.Name]
	if state.Pin.Snapshot == dataset.NoSnapshot {
		return nil // the file without rows has all of them
	}
	fields := state.Schema.Fields()
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = f.Name
	}
	rows, err := c.options.Source.Rows(ctx, t.Name, state, c.query.Needs(columns))
	if err != nil {
		return err
	}
	defer rows.Release()
	t.File = c.folder.Path(fmt.Sprintf("table-%d.parquet", i))
	return c.write(t.File, rows.Schema(), rows)
}

// read opens a Parquet file that DuckDB wrote.
func (c *computation) read(ctx context.Context, path string) (array.RecordReader, error) {
	o := inputs.Options{Budget: c.options.Budget, Threads: runtime.GOMAXPROCS(0), NoFolderColumns: true, Opened: c.options.Opened}
	files, err := inputs.Find(ctx, []string{path}, o)
	if err != nil {
		return nil, fault.Op(err, "read the result of the SQL")
	}
	rows, err := inputs.Open(ctx, files, o)
	return rows, fault.Op(err, "read the result of the SQL")
}

// release removes all files.
func (c *computation) release() {
	if c.rows != nil {
		c.rows.Release()
	}
	c.folder.Release()
}
