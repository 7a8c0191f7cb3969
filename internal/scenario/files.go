package scenario

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
)

// Part is the contents of a data file.
type Part struct {
	Spec      int   // index into the table's specs
	Partition []any // see catalog.File
	Rows      arrow.RecordBatch
	values    [][]any // the values of Rows; nil: not known yet
}

// File is a data file that a writer of tables wrote.
type File struct {
	Part
	Location string
	Bytes    int64
	// Sequence is the data sequence number; 0 for format version 1.
	Sequence int64
	// Commit is the number of the snapshot that added the file, among all snapshots of the table,
	// from 1. It defines the order of rows for the rules first, last and distinct.
	Commit int
	// Rank is the position of that snapshot among the table's remaining snapshots; see
	// catalog.File.
	Rank int
	// Deleted reports which rows are deleted; nil: none.
	Deleted []bool
	ranges  map[int]expr.Range // see SetRanges
	deletes catalog.Deletes    // see SetDeletes
}

// Parts returns the table, and the contents of the files of each commit. The caller
// releases the rows.
func (t Table) Parts() (table *catalog.Table, commits [][]Part, err error) {
	fields, err := Fields(t.Header)
	if err != nil {
		return nil, nil, err
	}
	table = &catalog.Table{Name: t.Name, Fields: fields, Specs: map[int]catalog.Spec{}}
	for i, text := range t.Specs {
		if table.Specs[i], err = Spec(text, fields); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range t.Commits {
		rows, err := parseLines(fields, c.Lines)
		if err != nil {
			return nil, nil, err
		}
		files, err := cut(table, c.Spec, rows, c.FileRows)
		if err != nil {
			return nil, nil, err
		}
		commits = append(commits, files)
	}
	return table, commits, nil
}

// cut assigns rows to partitions, in order, and splits each partition into files of at most
// fileRows rows (0: one file). The oracle uses the same values. The product is not involved in
// computing the partitions.
func cut(t *catalog.Table, spec int, rows [][]any, fileRows int) ([]Part, error) {
	partitions, err := divide(t, t.Specs[spec], rows)
	if err != nil {
		return nil, err
	}
	whole, err := batchOf(t.Fields, rows)
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	var files []Part
	for _, p := range partitions {
		size := len(p.rows)
		if fileRows > 0 {
			size = fileRows
		}
		for some := range slices.Chunk(p.rows, size) {
			kept, err := batch.Filter(whole, some, memory.DefaultAllocator)
			if err != nil {
				return nil, err
			}
			values := make([][]any, len(some))
			for i, row := range some {
				values[i] = rows[row]
			}
			files = append(files, Part{Spec: spec, Partition: p.values, Rows: kept, values: values})
		}
	}
	return files, nil
}

// Place makes a table from files that also exist outside of the world, with the same locations,
// sequence numbers and order. It takes ownership of the rows.
func (w *World) Place(t *catalog.Table, files []File) error {
	if err := w.AddTable(t.Name, t.Fields, t.Specs); err != nil {
		return err
	}
	w.columns[t.Name] = t.Fields
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Commit, b.Commit), strings.Compare(a.Location, b.Location))
	})
	for len(files) > 0 {
		n := slices.IndexFunc(files, func(f File) bool { return f.Commit != files[0].Commit })
		if n < 0 {
			n = len(files)
		}
		if err := w.commit(t, files[:n]); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

// commit adds files as one snapshot.
func (w *World) commit(t *catalog.Table, files []File) error {
	listed := make([]catalog.File, len(files))
	for i, f := range files {
		if _, ok := w.rows[f.Location]; ok {
			return fmt.Errorf("there are two files at %s", f.Location)
		}
		values := f.values
		if values == nil {
			values = Values(f.Rows)
		}
		listed[i] = catalog.File{
			Location: f.Location, Bytes: f.Bytes, Rows: f.Rows.NumRows(), Sequence: f.Sequence, Spec: f.Spec, Partition: f.Partition, Ranges: ranges(t, values),
		}
		w.rows[f.Location] = f.Rows
		w.files[f.Location] = f
		w.stored[t.Name] = append(w.stored[t.Name], stored{
			spec: t.Specs[f.Spec], sources: sources(t, t.Specs[f.Spec]), partition: f.Partition, rows: f.left(values), location: f.Location,
			sequence: f.Sequence, commit: f.Commit, unordered: f.Sequence == 0 && f.Rank == 0,
		})
	}
	_, err := w.Memory.Append(t.Name, listed...)
	return err
}

// Erased reports whether any rows of a table are deleted.
func (w *World) Erased(table string) bool {
	return slices.ContainsFunc(w.stored[table], func(f stored) bool { return slices.Contains(w.files[f.location].Deleted, true) })
}

// left returns the rows that are not deleted.
func (f File) left(rows [][]any) [][]any {
	if f.Deleted == nil {
		return rows
	}
	var left [][]any
	for i, row := range rows {
		if !f.Deleted[i] {
			left = append(left, row)
		}
	}
	return left
}

// sources returns the source columns of partition fields.
func sources(t *catalog.Table, spec catalog.Spec) []catalog.Field {
	columns := make([]catalog.Field, len(spec))
	for i, f := range spec {
		columns[i], _ = t.ByID(f.Source)
	}
	return columns
}

// byID sorts the names of a table's columns by their field ids.
func (w *World) byID(table string, names []string) []string {
	id := func(name string) int {
		i := slices.IndexFunc(w.columns[table], func(f catalog.Field) bool { return f.Name == name })
		if i < 0 {
			return 0
		}
		return w.columns[table][i].ID
	}
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(id(a), id(b)) })
	return names
}

// Unordered reports whether the order in which some of a table's files were written is no longer
// known, since their snapshots have expired.
func (w *World) Unordered(table string) bool {
	commit := 0
	for _, f := range w.stored[table] {
		if f.unordered && commit != 0 && f.commit != commit {
			return true
		}
		if f.unordered {
			commit = f.commit
		}
	}
	return false
}

// Turned returns a world for the oracle, in which the files of unknown order were written in the
// opposite order.
func (w *World) Turned() *World {
	turned := &World{stored: map[string][]stored{}, columns: w.columns}
	for table, files := range w.stored {
		files = slices.Clone(files)
		slices.SortStableFunc(files, func(a, b stored) int {
			if a.unordered && b.unordered {
				return cmp.Compare(b.commit, a.commit)
			}
			return cmp.Compare(a.commit, b.commit)
		})
		turned.stored[table] = files
	}
	return turned
}

// SetRanges sets the value ranges of a file, by field id, to the ranges that another catalog has.
// The ranges decide which files are pruned, and therefore determine the lanes of rows.
func (w *World) SetRanges(location string, ranges map[int]expr.Range) {
	f := w.files[location]
	f.ranges = ranges
	w.files[location] = f
}

// SetDeletes sets the delete files of a file to the delete files that another catalog has. They are
// part of a split's name, which determines the order of shuffled splits. They do not delete rows of
// the world: only the file's Deleted does.
func (w *World) SetDeletes(location string, deletes catalog.Deletes) {
	f := w.files[location]
	f.deletes = deletes
	w.files[location] = f
}

// SetAllDeletes is SetDeletes for all files of a table.
func (w *World) SetAllDeletes(table string, deletes catalog.Deletes) {
	for _, f := range w.stored[table] {
		w.SetDeletes(f.location, deletes)
	}
}

// note records the columns that planning requests when it lists files.
func (w *World) note(t *catalog.Table, columns []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked[t.Name] == nil {
		w.asked[t.Name] = columnSet{}
	}
	for _, id := range columns {
		if f, ok := t.ByID(id); ok {
			w.asked[t.Name].add(f.Name)
		}
	}
}

// Files lists the files of a table, with the properties that the catalog in memory does
// not know.
func (w *World) Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error) {
	w.note(t, columns)
	files, err := w.Memory.Files(ctx, t, columns, bounds)
	w.complete(files, bounds)
	return files, err
}

// Appended lists the files of a table that were appended after a snapshot.
func (w *World) Appended(ctx context.Context, t *catalog.Table, since int64, columns []int, bounds []int) ([]catalog.File, error) {
	w.note(t, columns)
	files, err := w.Memory.Appended(ctx, t, since, columns, bounds)
	w.complete(files, bounds)
	return files, err
}

// complete sets the properties of files that the catalog in memory does not know, and
// sorts the files.
func (w *World) complete(files []catalog.File, bounds []int) {
	for i := range files {
		if placed, ok := w.files[files[i].Location]; ok {
			files[i].Sequence, files[i].Deletes = placed.Sequence, placed.deletes
			if placed.ranges != nil && len(bounds) > 0 {
				files[i].Ranges = placed.ranges
			}
			if placed.Sequence == 0 {
				files[i].Snapshot, files[i].Rank = int64(placed.Commit), placed.Rank
			}
		}
	}
	slices.SortStableFunc(files, func(a, b catalog.File) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Location, b.Location))
	})
}

// bySequence orders rows in the order in which their files are listed. This is the order of
// training rows, and of staging rows with duplicates: all.
func bySequence(a, b fileRow) int {
	return cmp.Or(cmp.Compare(a.file.sequence, b.file.sequence), strings.Compare(a.file.location, b.file.location))
}
