package verify_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/verify"
)

// world is tables and a dataset over them, made from text.
type world struct {
	*scenario.World
	t       *testing.T
	tables  map[string]*catalog.Table
	options loader.Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: scenario.NewWorld(), t: t, tables: map[string]*catalog.Table{}}
	t.Cleanup(w.Release)
	w.options = loader.Options{Catalog: w, Scan: w.Scan}
	return w
}

// table adds a table with partition specs.
func (w *world) table(name, header string, specs ...string) {
	w.t.Helper()
	fields, err := scenario.Fields(header)
	require.NoError(w.t, err)
	var all []catalog.Spec
	for _, text := range specs {
		spec, err := scenario.Spec(text, fields)
		require.NoError(w.t, err)
		all = append(all, spec)
	}
	w.tables[name], err = w.NewTable(name, fields, all...)
	require.NoError(w.t, err)
}

func (w *world) rows(name string, lines []string) arrow.RecordBatch {
	w.t.Helper()
	rows, err := scenario.Rows(w.tables[name].Fields, lines)
	require.NoError(w.t, err)
	w.t.Cleanup(rows.Release)
	return rows
}

// add commits rows to their partitions.
func (w *world) add(name string, spec int, lines ...string) {
	w.t.Helper()
	require.NoError(w.t, w.Append(w.tables[name], spec, w.rows(name, lines), 0))
}

// lie commits rows as one file that claims partition values.
func (w *world) lie(name string, spec int, partition []any, lines ...string) {
	w.t.Helper()
	require.NoError(w.t, w.AppendAs(w.tables[name], spec, w.rows(name, lines), partition))
}

// dataset sets the dataset d.
func (w *world) dataset(text string) {
	w.t.Helper()
	var node yaml.Node
	require.NoError(w.t, yaml.Unmarshal([]byte(text), &node))
	d, err := decode.Dataset("d", &node)
	require.NoError(w.t, err)
	w.options.Datasets = []dataset.Dataset{d}
}

func (w *world) verify(query dataset.Query) *loader.Verification {
	w.t.Helper()
	if query.Dataset == "" && query.Inline == nil {
		query.Dataset = "d"
	}
	v, err := loader.New(w.options).Verify(context.Background(), loader.PlanRequest{Query: query}, nil)
	require.NoError(w.t, err)
	return v
}

// broken makes a scan of some files fail after their first batch.
func (w *world) broken(e error, files ...string) {
	w.options.Scan = func(ctx context.Context, s plan.Source, columns []catalog.Field) (loader.Rows, error) {
		rows, err := w.Scan(ctx, s, columns)
		if err != nil || len(s.Files) != 1 || !slices.Contains(files, s.Files[0].File.Location) {
			return rows, err
		}
		given := false
		next := func() (arrow.RecordBatch, error) {
			if given || !rows.Next() {
				return nil, e
			}
			given = true
			b := rows.RecordBatch()
			b.Retain()
			return b, nil
		}
		return named{batch.FromFunc(rows.Schema(), next, rows.Release), rows}, nil
	}
}

type named struct {
	array.RecordReader
	of loader.Rows
}

func (n named) Begin() { n.of.Begin() }

func (n named) Files() func(row int64) string { return n.of.Files() }

func (n named) WithoutChecksum() bool { return n.of.WithoutChecksum() }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if flag.Lookup("rewrite").Value.String() == "true" { // of scenario
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run with -rewrite and review the diff")
}

// join returns the report of the only staging table.
func join(v *loader.Verification) *verify.Join { return v.Tables[1].Join }

func kinds(v *loader.Verification) []verify.Kind {
	var out []verify.Kind
	for _, f := range v.Findings {
		out = append(out, f.Kind)
	}
	return out
}

// everything returns a world in which everything is wrong.
func everything(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.table("ml.train", "request_id:long item:int! day:int!", "bucket(4,request_id)", "day")
	w.table("f.user", "req:long age:int", "bucket(2,req)")
	w.table("f.item", "item:int price:float version:int", "", "bucket(3,item)")
	w.add("ml.train", 0, "1 10 1", "1 11 1", "2 20 1", "- 30 2", "5 50 2", "8 80 2")
	w.add("ml.train", 1, "9 10 3", "9 99 3")
	w.lie("ml.train", 0, []any{int64(0)}, "2 21 4", "8 81 4", "6 60 4")
	w.add("f.user", 0, "1 31", "2 -", "9 39", "77 1", "78 1", "- 99")
	w.add("f.user", 0, "1 32", "1 33", "77 2")
	w.lie("f.user", 0, []any{nil}, "5 50")
	w.add("f.item", 0, "10 1.5 1", "11 2.5 1", "12 3.5 9")
	w.add("f.item", 1, "20 1.5 1", "30 2.5 1", "50 2.5 1")
	w.dataset(`
training: {table: ml.train}
key: [request_id]
staging:
  - {table: f.user, key: {request_id: req}, missing: error}
  - {table: f.item, key: [item], filter: "version < 3", min_match: 0.9}
`)
	return w
}
