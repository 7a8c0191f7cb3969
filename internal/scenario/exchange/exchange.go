// Package exchange writes random worlds as Iceberg tables with PyIceberg and Spark, so that a test
// can compare tables that were written by other libraries than those with which this repository
// reads them.
//
// A case becomes a folder: world.json lists its tables and the steps that create them, and an Arrow
// file has the rows of each append. A writer turns many folders into catalogs at a time. It then
// reads its tables, and writes the live files, their partitions and the ids of their rows to
// truth.json. World builds a world in memory from truth.json, and reads of the tables must equal
// reads of this world.
//
// Only tests import it.
package exchange

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/catalog"
)

// Folder is the folder of a case for a writer.
type Folder struct {
	Dir    string
	Case   *scenario.Case
	tables []*table
}

// table is a table of the case with its history.
type table struct {
	scenario.Table
	id     string // column that identifies its rows
	fields []catalog.Field
	rows   arrow.RecordBatch // rows of all commits
	row    map[int64]int32   // position in rows of the row with an id
	filled any               // initial default of the last column, if it has one
	lacked bool              // a file lacks the last column
}

// world is the content of world.json.
type world struct {
	Tables []steps `json:"tables"`
}

type steps struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Steps []step `json:"steps"`
}

// step is one change of a table. Do determines which fields are used.
type step struct {
	Do         string            `json:"do"`
	Format     int               `json:"format,omitempty"`
	Columns    []column          `json:"columns,omitempty"`
	Spec       []string          `json:"spec"`
	Properties map[string]string `json:"properties,omitempty"`
	Rows       string            `json:"rows,omitempty"`
	Partitions int               `json:"partitions,omitempty"` // Spark partitions, each of which writes separate files
	Filter     string            `json:"filter,omitempty"`
	Name       string            `json:"name,omitempty"`
	Type       string            `json:"type,omitempty"`
	Default    any               `json:"default,omitempty"` // initial default of an added column
}

// defaults are the initial defaults that columns may get, by type.
//
//nolint:gochecknoglobals // a constant table
var defaults = map[string]any{"int": 77, "long": 77, "double": 0.5, "string": "x", "boolean": true}

type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// Make writes a case into a folder, for a writer that supports it (see Writer.Takes). The seed
// decides the rest of the tables' history: format versions, added columns, deleted rows.
func Make(dir string, c *scenario.Case, w Writer, seed uint64) (*Folder, error) {
	f := &Folder{Dir: dir, Case: c}
	r := rand.New(rand.NewPCG(seed, 29))
	var out world
	for i, t := range c.Tables() {
		made := &table{Table: t, id: "row"}
		if i == 0 {
			made.id = "item"
		}
		f.tables = append(f.tables, made)
		h := &history{Rand: r, table: made, dir: dir, writer: w}
		if err := h.make(); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		h.cover(c.Layouts)
		out.Tables = append(out.Tables, steps{t.Name, made.id, h.steps})
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return f, os.WriteFile(filepath.Join(dir, "world.json"), text, 0o644)
}

// Release frees the rows of all tables.
func (f *Folder) Release() {
	for _, t := range f.tables {
		t.rows.Release()
	}
}

// history returns the steps of one table.
type history struct {
	*rand.Rand
	*table
	dir    string
	writer Writer
	steps  []step
	format int
	spec   int
	gone   []string // partition fields that an earlier spec had
	late   int      // commit before which the last column was added; 0: it was always there
}

func (h *history) chance(n int) bool { return h.IntN(n) == 0 }

func (h *history) make() error {
	var err error
	if h.fields, err = scenario.Fields(h.Header); err != nil {
		return err
	}
	h.format = h.writer.Formats[min(h.IntN(len(h.writer.Formats)), h.IntN(len(h.writer.Formats)))] // older versions are more frequent
	last := h.fields[len(h.fields)-1]
	if len(h.Commits) > 1 && !last.Required && !h.partitionedBy(last.Name) {
		value, defaulted := defaults[columnOf(lastWord(h.Header)).Type]
		switch {
		case defaulted && h.writer.Defaults && h.chance(2): // only few types have a default
			h.format, h.filled, h.late = 3, value, 1+h.IntN(len(h.Commits)-1)
		case h.chance(3):
			h.late = 1 + h.IntN(len(h.Commits)-1)
		}
	}
	h.create()
	var parts []arrow.RecordBatch
	for i, commit := range h.Commits {
		h.before(i, commit)
		given, err := scenario.Rows(h.fields, commit.Lines)
		if err != nil {
			return err
		}
		rows := withinReach(given)
		given.Release()
		defer rows.Release()
		if i < h.late {
			if rows, err = withLast(rows, h.filled); err != nil {
				return err
			}
			defer rows.Release()
		}
		parts = append(parts, rows)
		if rows.NumRows() > 0 {
			if err := h.append(i, rows); err != nil {
				return err
			}
		}
	}
	return h.gather(parts)
}

// partitionedBy reports whether any spec has a field of the column.
func (h *history) partitionedBy(name string) bool {
	return slices.ContainsFunc(fieldsOf(strings.Join(h.Specs, " ")), func(field string) bool { return sourceOf(field) == name })
}

// cover counts the properties of the table's history.
func (h *history) cover(seen scenario.Coverage) {
	seen[fmt.Sprintf("format %d", h.steps[0].Format)]++
	for _, step := range h.steps[1:] {
		seen[step.Do]++
		if step.Default != nil {
			seen["default"]++
		}
	}
}

// create returns the step that creates the table.
func (h *history) create() {
	create := step{Do: "create", Format: h.format, Spec: fieldsOf(h.Specs[0]), Properties: h.properties()}
	words := strings.Fields(h.Header)
	if h.late > 0 {
		words = words[:len(words)-1]
	}
	for _, word := range words {
		create.Columns = append(create.Columns, columnOf(word))
	}
	h.steps = append(h.steps, create)
}

// properties chooses table properties that affect written files: small row groups, files of few row
// groups, and bounds that are truncated, full or absent.
func (h *history) properties() map[string]string {
	choose := func(choices ...string) string { return choices[h.IntN(len(choices))] }
	p := map[string]string{
		"write.metadata.metrics.default":     choose("truncate(16)", "truncate(2)", "full", "none", "counts"),
		"write.parquet.compression-codec":    choose("zstd", "snappy", "uncompressed", "gzip"),
		"commit.manifest-merge.enabled":      choose("true", "false"),
		"commit.manifest.min-count-to-merge": "2",
	}
	maps.Copy(p, h.writer.Groups)
	if h.chance(2) {
		maps.Copy(p, h.writer.Files)
	}
	return p
}

// before makes changes to the table before a commit.
func (h *history) before(i int, commit scenario.Commit) {
	if h.format < slices.Max(h.writer.Formats) && i > 0 && h.chance(2) {
		h.format++
		h.steps = append(h.steps, step{Do: "upgrade", Format: h.format})
	}
	if i > 0 && i == h.late {
		last := columnOf(lastWord(h.Header))
		h.steps = append(h.steps, step{Do: "add_column", Name: last.Name, Type: last.Type, Default: h.filled})
	}
	if commit.Spec != h.spec && h.evolves(fieldsOf(h.Specs[commit.Spec])) {
		h.spec = commit.Spec
		h.steps = append(h.steps, step{Do: "spec", Spec: fieldsOf(h.Specs[h.spec])})
	}
}

// evolves reports whether a table can change to a spec. In format version 1, a removed field stays
// in the spec as void. It cannot return, and PyIceberg refuses to write if another field has the
// same column, or if the column is of a type that cannot be grouped.
func (h *history) evolves(to []string) bool {
	if h.steps[0].Format > 1 {
		return true
	}
	gone := slices.Clone(h.gone)
	for _, field := range fieldsOf(h.Specs[h.spec]) {
		if !slices.Contains(to, field) {
			if slices.Contains(h.writer.Apart, "void of "+h.typeOf(sourceOf(field))) {
				return false
			}
			gone = append(gone, field)
		}
	}
	for _, field := range to {
		if slices.Contains(gone, field) {
			return false
		}
		if !h.writer.Voids && slices.ContainsFunc(gone, func(g string) bool { return sourceOf(g) == sourceOf(field) }) {
			return false
		}
	}
	h.gone = gone
	return true
}

// typeOf returns the type of a column, as in the table's header.
func (h *history) typeOf(name string) string {
	for word := range strings.FieldsSeq(h.Header) {
		if c := columnOf(word); c.Name == name {
			return c.Type
		}
	}
	return ""
}

// sourceOf returns the source column of a partition field such as bucket(4,k).
func sourceOf(field string) string {
	field = strings.TrimSuffix(field, ")")
	return field[strings.LastIndexAny(field, "(,")+1:]
}

// append commits rows, and sometimes drops one of them again.
func (h *history) append(i int, rows arrow.RecordBatch) error {
	name := fmt.Sprintf("%s.%d.arrow", h.Name, i)
	shown := rows
	if i < h.late {
		shown = array.NewRecordBatch(arrow.NewSchema(rows.Schema().Fields()[:len(h.fields)-1], nil), rows.Columns()[:len(h.fields)-1], rows.NumRows())
		defer shown.Release()
	}
	if err := save(filepath.Join(h.dir, name), shown); err != nil {
		return err
	}
	do := "append"
	if h.writer.Adds && len(fieldsOf(h.Specs[h.spec])) == 0 && len(h.gone) == 0 && h.chance(2) {
		do = "add_files"
	}
	h.steps = append(h.steps, step{Do: do, Rows: name, Partitions: 1 + h.IntN(2)})
	if h.chance(6) {
		id := h.ids(rows)[h.IntN(int(rows.NumRows()))]
		h.steps = append(h.steps, step{Do: "delete", Filter: fmt.Sprintf("%s = %d", h.id, id)})
	}
	return nil
}

// gather collects all rows by their ids.
func (h *history) gather(parts []arrow.RecordBatch) error {
	columns := make([]arrow.Array, len(h.fields))
	for k := range h.fields {
		var column []arrow.Array
		for _, part := range parts {
			column = append(column, part.Column(k))
		}
		var err error
		if columns[k], err = array.Concatenate(column, memory.DefaultAllocator); err != nil {
			return err
		}
		defer columns[k].Release()
	}
	h.rows = array.NewRecordBatch(parts[0].Schema(), columns, int64(columns[0].Len()))
	h.row = map[int64]int32{}
	for i, id := range h.ids(h.rows) {
		h.row[id] = int32(i)
	}
	if len(h.row) != int(h.rows.NumRows()) {
		return fmt.Errorf("column %s does not tell the rows apart", h.id)
	}
	return nil
}

func (t *table) ids(rows arrow.RecordBatch) []int64 {
	k := slices.IndexFunc(t.fields, func(f catalog.Field) bool { return f.Name == t.id })
	return rows.Column(k).(*array.Int64).Int64Values()
}

// withLast returns rows with one value in the last column; nil is null.
func withLast(rows arrow.RecordBatch, value any) (arrow.RecordBatch, error) {
	last := int(rows.NumCols()) - 1
	b := array.NewBuilder(memory.DefaultAllocator, rows.Schema().Field(last).Type)
	defer b.Release()
	for range rows.NumRows() {
		if value == nil {
			b.AppendNull()
		} else if err := b.AppendValueFromString(fmt.Sprint(value)); err != nil {
			return nil, err
		}
	}
	column := b.NewArray()
	defer column.Release()
	return array.NewRecordBatch(rows.Schema(), append(slices.Clone(rows.Columns()[:last]), column), rows.NumRows()), nil
}

func lastWord(header string) string {
	words := strings.Fields(header)
	return words[len(words)-1]
}

// columnOf parses a column of a header, such as item:long!.
func columnOf(word string) column {
	name, kind, _ := strings.Cut(word, ":")
	kind, required := strings.CutSuffix(kind, "!")
	return column{name, kind, required}
}

// fieldsOf splits a spec into its fields. Without fields, it returns an empty list, not null.
func fieldsOf(spec string) []string { return append([]string{}, strings.Fields(spec)...) }

func save(path string, rows arrow.RecordBatch) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := ipc.NewFileWriter(file, ipc.WithSchema(rows.Schema()))
	if err != nil {
		return err
	}
	if err := w.Write(rows); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}
