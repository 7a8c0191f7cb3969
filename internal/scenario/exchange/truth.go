package exchange

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/catalog"
)

// truth is the content of truth.json: a writer's reading of its own tables.
type truth struct {
	Tables []*tableTruth `json:"tables"`
}

type tableTruth struct {
	Name   string                      `json:"name"`
	Format int                         `json:"format"`
	Specs  map[string][]partitionField `json:"specs"`
	Files  []fileTruth                 `json:"files"`
}

type partitionField struct {
	ID        int    `json:"id"`
	Transform string `json:"transform"`
	N         int    `json:"n"`
	Source    string `json:"source"`
}

type fileTruth struct {
	Path      string  `json:"path"`
	Bytes     int64   `json:"bytes"`
	Snapshot  int64   `json:"snapshot"`
	Order     int     `json:"order"`
	Sequence  *int64  `json:"sequence"`
	Spec      int     `json:"spec"`
	Partition []any   `json:"partition"`
	Rows      []int64 `json:"rows"`
	// Columns are the columns of the file.
	Columns []string `json:"columns"`
}

// World returns the world in memory to which reads of the writer's tables must be equal. Its files
// have the writer's names, so that rules that depend on names give the same result.
func (f *Folder) World() (*scenario.World, error) {
	text, err := os.ReadFile(filepath.Join(f.Dir, "truth.json"))
	if err != nil {
		return nil, err
	}
	var known truth
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber() // snapshot ids and longs do not fit in a float
	if err := reader.Decode(&known); err != nil {
		return nil, err
	}
	w := scenario.NewWorld()
	w.BatchRows = f.Case.ScanRows
	for i, t := range f.tables {
		if err := t.place(w, known.Tables[i]); err != nil {
			w.Release()
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return w, nil
}

// ReadsDefaults reports whether a file lacks a column with an initial default. It is valid after
// World.
func (f *Folder) ReadsDefaults() bool {
	reads := f.Case.Reads()
	return slices.ContainsFunc(f.tables, func(t *table) bool {
		return t.filled != nil && t.lacked && slices.Contains(reads[t.Name], t.fields[len(t.fields)-1].Name)
	})
}

// place creates a table of the world, commit by commit.
func (t *table) place(w *scenario.World, known *tableTruth) error {
	specs := map[int]catalog.Spec{}
	kept := map[int][]int{} // by spec, the fields that are not void
	for id, fields := range known.Specs {
		n, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		if specs[n], kept[n], err = t.spec(fields); err != nil {
			return err
		}
	}
	made := &catalog.Table{Name: t.Name, Fields: t.fields, Specs: specs}
	var files []scenario.File
	for _, file := range known.Files {
		written, err := t.written(file, specs[file.Spec], kept[file.Spec])
		if err != nil {
			return fmt.Errorf("file %s: %w", file.Path, err)
		}
		files = append(files, written)
		t.lacked = t.lacked || !slices.Contains(file.Columns, t.fields[len(t.fields)-1].Name)
	}
	return w.Place(made, files)
}

// spec converts a partition spec, without its void fields.
func (t *table) spec(fields []partitionField) (spec catalog.Spec, kept []int, err error) {
	for i, f := range fields {
		if f.Transform == "void" {
			continue
		}
		k := slices.IndexFunc(t.fields, func(x catalog.Field) bool { return x.Name == f.Source })
		if k < 0 {
			return nil, nil, fmt.Errorf("a partition field has the source %q, which is not a column", f.Source)
		}
		name := f.Source
		if f.Transform != string(catalog.Identity) {
			name += "_" + f.Transform
		}
		spec = append(spec, catalog.PartitionField{
			ID: f.ID, Source: t.fields[k].ID, Name: name,
			Transform: catalog.Transform{Kind: catalog.TransformKind(f.Transform), N: f.N},
		})
		kept = append(kept, i)
	}
	return spec, kept, nil
}

// written is a file of the writer, with its rows according to truth.json.
func (t *table) written(file fileTruth, spec catalog.Spec, kept []int) (scenario.File, error) {
	w := scenario.File{Location: file.Path, Bytes: file.Bytes, Commit: file.Order, Rank: file.Order, Part: scenario.Part{Spec: file.Spec}}
	if file.Sequence != nil {
		w.Sequence = *file.Sequence
	}
	for i, f := range spec {
		k := slices.IndexFunc(t.fields, func(x catalog.Field) bool { return x.ID == f.Source })
		value, err := partitionValue(f.Transform.Kind, t.fields[k].Type, file.Partition[kept[i]])
		if err != nil {
			return w, err
		}
		w.Partition = append(w.Partition, value)
	}
	rows := make([]int32, len(file.Rows))
	for i, id := range file.Rows {
		row, ok := t.row[id]
		if !ok {
			return w, fmt.Errorf("no row was written with the id %d", id)
		}
		rows[i] = row
	}
	var err error
	w.Rows, err = batch.Filter(t.rows, rows, memory.DefaultAllocator)
	return w, err
}

// partitionValue converts a JSON value to a partition value of catalog.File.
func partitionValue(kind catalog.TransformKind, source arrow.DataType, v any) (any, error) {
	column := kind == catalog.Identity || kind == catalog.Truncate
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case json.Number:
		if column && arrow.IsFloating(source.ID()) {
			return v.Float64()
		}
		return v.Int64()
	case string:
		if column && (arrow.IsBaseBinary(source.ID()) && source.ID() != arrow.STRING || source.ID() == arrow.FIXED_SIZE_BINARY) {
			decoded, err := base64.StdEncoding.DecodeString(v)
			return string(decoded), err
		}
		return strings.Clone(v), nil
	default:
		return nil, fmt.Errorf("partition value %v is a %T", v, v)
	}
}
