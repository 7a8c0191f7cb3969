// Package scenario is the test kit of the loader: tables in memory with a catalog and
// a scan, text files of commands with their expected output, and random cases with a
// slow, obvious oracle.
//
// Only tests import it.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/plan"
)

// World is a set of tables in memory. Set its options before reading.
type World struct {
	*catalogtest.Memory
	BatchRows int                          // rows per batch of a scan; 0 is 7
	Scanned   map[string]int               // how often each file was opened; read it only when no stream is open
	NoCodes   bool                         // scans return only plain values; otherwise, some batches have codes where a source allows this
	mu        sync.Mutex                   // guards Scanned and asked
	asked     map[string]columnSet         // columns that planning requested, by table
	rows      map[string]arrow.RecordBatch // by file location
	stored    map[string][]stored          // by table, in the order of commits, then locations
	files     map[string]File              // by location
	columns   map[string][]catalog.Field   // by table
	named     int                          // number of files so far
	commits   int64                        // number of commits of all tables so far
}

// stored is a file as the oracle reads it.
type stored struct {
	spec      catalog.Spec
	sources   []catalog.Field // source columns of the spec's fields
	partition []any
	rows      [][]any
	location  string
	sequence  int64
	commit    int
	unordered bool // whether its order among the other unordered files is unknown
}

// NewWorld makes a world without tables.
func NewWorld() *World {
	return &World{
		Memory: catalogtest.NewMemory(), rows: map[string]arrow.RecordBatch{}, stored: map[string][]stored{}, Scanned: map[string]int{},
		files: map[string]File{}, asked: map[string]columnSet{}, columns: map[string][]catalog.Field{},
	}
}

// Release frees the rows of all tables.
func (w *World) Release() {
	for _, b := range w.rows {
		b.Release()
	}
	w.rows = nil
}

// Append commits rows to a table: it assigns them to partitions, in order, and splits
// each partition into files of at most fileRows rows (0: one file).
func (w *World) Append(t *catalog.Table, spec int, rows arrow.RecordBatch, fileRows int) error {
	return w.appendRows(t, spec, Values(rows), fileRows)
}

// appendRows is like Append, for rows as values.
func (w *World) appendRows(t *catalog.Table, spec int, rows [][]any, fileRows int) error {
	parts, err := cut(t, spec, rows, fileRows)
	if err != nil {
		return err
	}
	w.commits++
	files := make([]File, len(parts))
	for i, p := range parts {
		w.named++
		location := fmt.Sprintf("mem:///%s/%05d.parquet", t.Name, w.named)
		files[i] = File{Part: p, Location: location, Bytes: batch.Size(p.Rows), Sequence: w.commits, Commit: int(w.commits)}
	}
	return w.commit(t, files)
}

// AppendAs commits rows as one file with the given partition values, correct or not.
func (w *World) AppendAs(t *catalog.Table, spec int, rows arrow.RecordBatch, partition []any) error {
	w.named++
	w.commits++
	location := fmt.Sprintf("mem:///%s/%05d.parquet", t.Name, w.named)
	rows.Retain()
	w.rows[location] = rows
	_, err := w.Memory.Append(t.Name, catalog.File{
		Location: location, Bytes: batch.Size(rows), Rows: rows.NumRows(), Sequence: w.commits, Spec: spec, Partition: partition, Ranges: ranges(t, Values(rows)),
	})
	return err
}

// Scan implements loader.Scan over memory.
func (w *World) Scan(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
	fields := make([]arrow.Field, len(columns))
	for i, f := range columns {
		fields[i] = f.Arrow()
	}
	if err := planned(source, columns); err != nil {
		return nil, err
	}
	if source.Ordinals {
		fields = append(fields, arrow.Field{Name: "number", Type: arrow.PrimitiveTypes.Int64})
	}
	r := &reader{world: w, source: source, columns: columns, schema: arrow.NewSchema(fields, nil), given: new([]int64)}
	r.RecordReader = batch.FromFunc(r.schema, func() (arrow.RecordBatch, error) { return r.next(ctx) }, nil)
	return r, nil
}

// planned returns an error if a column is read that planning did not check.
func planned(source plan.Source, columns []catalog.Field) error {
	read := slices.Concat(columns, source.Checked)
	for _, name := range slices.Concat(source.Filter.Columns(), source.Sample.Reads()) {
		f, ok := source.Table.Field(name)
		if !ok {
			return fault.New(fault.Internal, "column %s is read, but table %s does not have it", name, source.Table.Name)
		}
		read = append(read, f)
	}
	for _, f := range read {
		if err := source.Check(f); err != nil {
			return err
		}
	}
	return nil
}

// reader scans files of a world in batches.
type reader struct {
	array.RecordReader
	world   *World
	source  plan.Source
	columns []catalog.Field
	schema  *arrow.Schema
	file    int
	row     int64    // position in the range of the file
	given   *[]int64 // number of rows returned of each file
}

// Begin implements loader.Rows: rows in memory need no prefetch.
func (r *reader) Begin() {}

// WithoutChecksum implements loader.Rows: rows in memory have no pages.
func (r *reader) WithoutChecksum() bool { return false }

// Files returns a function that returns the file of a row that the reader returned.
func (r *reader) Files() func(row int64) string {
	given, files := r.given, r.source.Files
	return func(row int64) string {
		for i, n := range *given {
			if row < n {
				return files[i].File.Location
			}
			row -= n
		}
		return "(no such row)"
	}
}

func (r *reader) next(ctx context.Context) (arrow.RecordBatch, error) {
	size := int64(r.world.BatchRows)
	if size == 0 {
		size = 7
	}
	for r.file < len(r.source.Files) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := r.source.Files[r.file]
		if len(*r.given) == r.file {
			*r.given = append(*r.given, 0)
			r.world.scanned(f.File.Location)
			if r.source.Asked != nil {
				r.source.Asked(f.File.Location, f.File.Bytes)
			}
		}
		from := f.From + r.row
		if from == f.To {
			r.file, r.row = r.file+1, 0
			continue
		}
		to := min(f.To, from+size)
		r.row += to - from
		b, err := r.read(f, from, to)
		if err != nil || b.NumRows() > 0 {
			if err == nil {
				(*r.given)[r.file] += b.NumRows()
			}
			return b, err
		}
		b.Release()
	}
	return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
}

func (w *World) scanned(location string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Scanned[location]++
}

// read returns the rows of a range that pass the source's filter.
func (r *reader) read(file plan.FileRange, from, to int64) (arrow.RecordBatch, error) {
	location := file.File.Location
	rows := r.world.rows[location].NewSlice(from, to)
	defer rows.Release()
	kept, deleted := rows, r.world.files[location].Deleted
	keep := make([]int32, to-from)
	for i := range keep {
		keep[i] = int32(i)
	}
	if r.source.Filter != nil || r.source.Sample != nil || deleted != nil {
		var err error
		if keep, err = r.source.Filter.Evaluate(rows, nil, nil); err != nil {
			return nil, err
		}
		if keep, err = r.source.Sample.Keep(keep, rows, keep, location, from, nil); err != nil {
			return nil, err
		}
		keep = slices.DeleteFunc(keep, func(row int32) bool { return deleted != nil && deleted[from+int64(row)] })
		if kept, err = batch.Filter(rows, keep, memory.DefaultAllocator); err != nil {
			return nil, err
		}
		defer kept.Release()
	}
	columns := make([]arrow.Array, len(r.columns), len(r.columns)+1)
	for i, f := range r.columns {
		k := slices.IndexFunc(r.source.Table.Fields, func(x catalog.Field) bool { return x.ID == f.ID })
		copied, err := r.column(f, kept.Column(k))
		if err != nil {
			return nil, err
		}
		defer copied.Release()
		columns[i] = copied
	}
	if r.source.Ordinals {
		numbers := array.NewInt64Builder(memory.DefaultAllocator)
		defer numbers.Release()
		for _, row := range keep {
			numbers.Append(file.Ordinal + from - file.From + int64(row))
		}
		column := numbers.NewArray()
		defer column.Release()
		columns = append(columns, column)
	}
	return array.NewRecordBatch(batch.FormOf(r.schema, columns), columns, kept.NumRows()), nil
}

// column copies a column, since batches that are read from files have separate memory. In two of
// three batches, it returns codes for columns that may come as codes.
func (r *reader) column(f catalog.Field, values arrow.Array) (arrow.Array, error) {
	g := batch.NewGatherer(memory.DefaultAllocator)
	defer g.Release()
	segments := []batch.Segment{{Values: values, Rows: values.Len()}}
	if !slices.Contains(r.source.Coded, f.ID) || r.world.NoCodes || r.row%3 == 0 || values.NullN() == values.Len() {
		return g.Gather(f.Type, segments)
	}
	return g.GatherCodes(f.Type, segments)
}
