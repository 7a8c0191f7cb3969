package warehouse

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// Folder is the location of a case's tables: a folder with a catalog.db, and the name of
// its catalog.
type Folder struct{ Dir, Catalog string }

// Reader reads the tables of a folder like the server.
type Reader struct {
	set *catalog.Set
}

// Open opens a folder.
func (f Folder) Open(ctx context.Context) (*Reader, error) {
	one, err := icebergcat.Open(ctx, icebergcat.Options{Name: f.Catalog, Type: "sql", URI: "sqlite:///catalog.db", BaseDir: f.Dir, Store: store.Local{}})
	if err != nil {
		return nil, err
	}
	set, err := catalog.NewSet(map[string]catalog.Catalog{"default": one}, "default")
	if err != nil {
		return nil, err
	}
	return &Reader{set}, nil
}

// Read plans and reads the query of a case over its real tables. It composes the packages like the
// server.
func (r *Reader) Read(ctx context.Context, c *scenario.Case, p Prediction, options loader.Options) ([]scenario.Shard, error) {
	d, err := c.Decoded()
	if err != nil {
		return nil, err
	}
	repeats := 1
	if c.NoCodes {
		repeats = scan.NoCodes
	}
	scanner, err := scan.New(scan.Options{Files: r.set, Memory: options.Memory, Budget: options.Budget, BatchRows: c.ScanRows, MinRepeats: repeats})
	if err != nil {
		return nil, err
	}
	options.Datasets, options.Catalog = []dataset.Dataset{d}, r.set
	options.Scan = func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
		rows, err := scanner.Open(ctx, source, columns)
		if err != nil {
			return nil, err
		}
		return rows, nil
	}
	pinned := *c
	if p.Pinned {
		if pinned.Query.Pin, err = r.pin(ctx, c); err != nil {
			return nil, err
		}
	}
	return pinned.Read(ctx, loader.New(options))
}

// pin returns the current pin of a case's tables.
func (r *Reader) pin(ctx context.Context, c *scenario.Case) (dataset.Pin, error) {
	training, err := r.set.Table(ctx, c.Training.Name, dataset.Ref{})
	if err != nil {
		return dataset.Pin{}, err
	}
	pin := dataset.Pin{Training: training.Pin, Staging: map[string]dataset.TablePin{}}
	for _, entry := range c.Dataset.Staging {
		staging, err := r.set.Table(ctx, entry.Table, dataset.Ref{})
		if err != nil {
			return dataset.Pin{}, err
		}
		pin.Staging[entry.Name] = staging.Pin
	}
	return pin, nil
}

// tell sets the ranges of the files in memory to those of the real files, since pruning
// determines the lanes of rows.
func (r *Reader) tell(ctx context.Context, c *scenario.Case, w *scenario.World) error {
	for _, t := range append([]scenario.Table{c.Training}, c.Staging...) {
		table, err := r.set.Table(ctx, t.Name, dataset.Ref{})
		if err != nil {
			return err
		}
		memory, err := w.Table(ctx, t.Name, dataset.Ref{})
		if err != nil {
			return err
		}
		ids, all := map[int]int{}, []int{}
		for _, f := range slices.Concat(table.Fields, table.Nested) {
			if own, ok := memory.Field(f.Name); ok {
				ids[f.ID] = own.ID
				all = append(all, f.ID)
			}
		}
		files, err := r.set.Files(ctx, table, nil, all)
		if err != nil {
			return err
		}
		for _, f := range files {
			ranges := map[int]expr.Range{}
			for id, known := range f.Ranges {
				ranges[ids[id]] = known
			}
			w.SetRanges(f.Location, ranges)
			w.SetDeletes(f.Location, f.Deletes)
		}
	}
	return nil
}

// Outcome is the result of a case.
type Outcome struct {
	scenario.Difference
	Refused string // the reason, if the case was refused as predicted
	Seen    scenario.Coverage
}

// Compare reads a case from its real tables and from memory. Both reads must return the rows that
// the oracle expects, in the same order and with the same counts, unless the real tables are
// refused as predicted.
func (f Folder) Compare(ctx context.Context, c *scenario.Case, w *scenario.World, p Prediction, options loader.Options) (out Outcome) {
	want := c.Expect(w)
	out.Seen = want.Seen
	out.Seen["worlds"]++
	failed := func(kind string, err error) Outcome {
		out.Difference = scenario.Difference{Kind: kind, Text: err.Error()}
		return out
	}
	r, err := f.Open(ctx)
	if err != nil {
		return failed("the catalog cannot be opened", err)
	}
	real, err := r.Read(ctx, c, p, options)
	if want.Unbound != "" { // planning fails before files are read
		out.Difference = c.Compare(want, real, err)
		return out
	}
	if out.Refused, out.Difference = judgeOrder(c, w, p, want, err); out.Refused != "" || out.Difference != (scenario.Difference{}) {
		return out
	}
	if out.Difference = c.Compare(want, real, err); out.Difference != (scenario.Difference{}) || err != nil {
		return out
	}
	if err := r.tell(ctx, c, w); err != nil {
		return failed("files cannot be listed", err)
	}
	d, err := c.Decoded()
	if err != nil {
		return failed("the dataset is refused", err)
	}
	options.Datasets, options.Catalog, options.Scan = []dataset.Dataset{d}, w, w.Scan
	memory, err := c.Read(ctx, loader.New(options))
	if out.Difference = c.Compare(want, memory, err); out.Difference != (scenario.Difference{}) {
		out.Kind = "in memory: " + out.Kind
		return out
	}
	out.Difference = sameOrder(real, memory)
	return out
}

// sameField reports whether two fields have the same name, type and nullability. It ignores the metadata that declares UUIDs: a scenario
// in memory does not distinguish uuid from fixed(16).
func sameField(a, b arrow.Field) bool {
	return a.Name == b.Name && a.Nullable == b.Nullable && a.Type.String() == b.Type.String()
}

// sameOrder compares the batches of shards one by one.
func sameOrder(real, memory []scenario.Shard) scenario.Difference {
	for i, s := range real {
		if !slices.EqualFunc(s.Schema.Fields(), memory[i].Schema.Fields(), sameField) {
			return scenario.Difference{Kind: "schemas differ", Text: fmt.Sprintf("files:  %s\nmemory: %s", s.Schema, memory[i].Schema)}
		}
		got, want := scenario.Texts(s.Rows()), scenario.Texts(memory[i].Rows())
		if !slices.Equal(got, want) {
			return scenario.Difference{Kind: "the order differs", Text: fmt.Sprintf("shard %d\nfiles:  %v\nmemory: %v", i, got, want)}
		}
		for k, b := range s.Batches {
			if len(b) != len(memory[i].Batches[k]) {
				return scenario.Difference{Kind: "batches differ", Text: fmt.Sprintf("shard %d, batch %d has %d rows, in memory %d", i, k, len(b), len(memory[i].Batches[k]))}
			}
		}
	}
	return scenario.Difference{}
}
