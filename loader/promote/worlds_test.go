package promote_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/warehouse"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/promote"
)

// manyWorlds is a number of worlds that cover all changes.
const manyWorlds = 40

// firstWorld lets a person try worlds that no earlier run has tried.
var firstWorld = flag.Uint64("first-world", 0, "seed of the first random world")

// TestWorldsWhosePromotionsChangeNothing writes random worlds as real tables, with every history, and
// promotes and demotes random entries of their datasets. In between, rows are appended to the tables.
// Each read returns the rows that nested loops return, and the same batches as before. At the pins of
// the first read, the last read returns the batches of the first one.
//
// spec: promote-1, promote-18, promote-19, promote-20, promote-25, promote-27, promote-29, order-31
func TestWorldsWhosePromotionsChangeNothing(t *testing.T) {
	t.Parallel()
	const lanes = 2 // worlds that are tried concurrently
	worlds := loadertest.Cases(1, fewWorlds, 1500)
	seen := make([]scenario.Coverage, lanes)
	group, stopped := errgroup.WithContext(context.Background())
	for lane := range lanes {
		w, err := warehouse.New(t.TempDir())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		seen[lane] = scenario.Coverage{}
		group.Go(func() error {
			for seed := lane; seed < worlds && stopped.Err() == nil; seed += lanes {
				seed := *firstWorld + uint64(seed) //nolint:gosec // it counts from 0
				if err := tryWorld(stopped, t, w, seed, seen[lane]); err != nil {
					return fmt.Errorf("world %d: %w", seed, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	all := scenario.Coverage{}
	for _, s := range seen {
		all.Add(s)
	}
	t.Logf("%d worlds: %v", worlds, all)
	for _, what := range []string{
		"promoted", "promoted again", "demoted", "training rows appended", "staging rows appended", "entries read from their columns", "read at the first pins", "files filled",
	} {
		if worlds < manyWorlds {
			break // only a few worlds have few of these
		}
		require.Positive(t, all[what], "too few worlds: %s", what)
	}
}

// world is a random case, its real tables, and what was promoted.
type world struct {
	*warehouse.Written
	*rand.Rand
	folder   warehouse.Folder
	tables   tables
	promoter *promote.Promoter
	promoted []string // entries
	ever     map[string]bool
	pin      map[string]dataset.TablePin // of entries that are joined, once staging tables have later rows
	bare     *catalog.Table              // the training table before all changes
	copies   int
	budget   *budget.Budget
	seen     scenario.Coverage
}

// tryWorld changes a world at random, and compares what it reads after each change.
func tryWorld(ctx context.Context, t *testing.T, w *warehouse.Warehouse, seed uint64, seen scenario.Coverage) error {
	t.Helper()
	c := scenario.Generate(seed, 1+int(seed)%16, 1+int(seed)/16%16)
	switch {
	case c.Query.Wire.Auto():
		c.Query.Wire = dataset.WirePlain // auto chooses another form if rows come from another table
	case c.Query.Wire == dataset.WireIndexed && seed%4 != 0:
		c.Query.Wire = dataset.WirePlain // most worlds read the promoted columns, which indexed queries do not
	}
	made, err := w.Write(ctx, c, seed)
	if err != nil {
		return err
	}
	defer made.World.Release()
	defer func() { _ = w.Drop(ctx, made) }()
	o := &world{
		Written: made, Rand: rand.New(rand.NewPCG(seed, 41)), folder: w.Folder(made), ever: map[string]bool{}, budget: budget.New(loadertest.Plenty), seen: seen,
	}
	if err := o.open(ctx, t); err != nil {
		return err
	}
	defer o.tables.Close()
	want := made.Expect(made.World)
	want.Counts = nil // promoted entries have none
	before, err := o.read(ctx)
	if err != nil && want.Fails == "" && !refused(err) {
		return fmt.Errorf("before any promotion: %w", err)
	}
	if err != nil {
		seen["the query cannot be read"]++
		return nil // TestWorlds judges the error
	}
	if d := made.Compare(want, before, nil); d != (scenario.Difference{}) {
		return fmt.Errorf("before any promotion: %s: %s", d.Kind, d.Text)
	}
	first, err := o.pinAll(ctx)
	if err != nil {
		return err
	}
	original := before
	if o.bare, err = o.tables.At(ctx, o.Training.Name, first.Training); err != nil {
		return err
	}
	for range 3 + o.IntN(4) {
		what, err := o.change(ctx, &before)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", what, err, made.Dataset.Canonical())
		}
	}
	last, err := o.readAt(ctx, first)
	if err == nil {
		err = sameShards(original, last)
	}
	if err != nil {
		return fmt.Errorf("at the pins of the first read: %w\n%s", err, made.Dataset.Canonical())
	}
	seen["read at the first pins"]++
	if used := o.budget.Used(); used != 0 {
		return fmt.Errorf("%d bytes are still reserved", used)
	}
	return nil
}

// pinAll returns the pins of all tables of the dataset.
func (o *world) pinAll(ctx context.Context) (dataset.Pin, error) {
	training, err := o.tables.Table(ctx, o.Training.Name, o.Dataset.Training.Ref)
	if err != nil {
		return dataset.Pin{}, err
	}
	out := dataset.Pin{Training: training.Pin, Staging: map[string]dataset.TablePin{}}
	for _, s := range o.Dataset.Staging {
		t, err := o.tables.Table(ctx, s.Table, s.Ref)
		if err != nil {
			return dataset.Pin{}, err
		}
		out.Staging[s.Name] = t.Pin
	}
	return out, nil
}

// open opens the tables for changes.
func (o *world) open(ctx context.Context, t *testing.T) (err error) {
	t.Helper()
	o.tables.Catalog, err = icebergcat.Open(ctx, icebergcat.Options{
		Name: o.folder.Catalog, Type: "sql", URI: "sqlite:///catalog.db", BaseDir: o.folder.Dir, Store: store.Local{},
		Clock: time.Now, WriteNamespaces: []string{"ml", "features"}, Budget: o.budget,
	})
	if err != nil {
		return err
	}
	r := &rig{tables: o.tables, budget: o.budget}
	o.promoter = promote.New(promote.Options{
		Route:   func(table string) (promote.PromotedTables, string, error) { return &o.tables, table, nil },
		Catalog: &o.tables, Loader: r.loader(t), Deletes: r.deletes(t), Clock: time.Now, Budget: o.budget, Threads: 2,
	})
	return nil
}

// read reads the query of the case at the current training rows.
func (o *world) read(ctx context.Context) ([]scenario.Shard, error) {
	return o.readAt(ctx, dataset.Pin{Staging: o.pin})
}

// readAt reads the query of the case at pins.
func (o *world) readAt(ctx context.Context, pin dataset.Pin) ([]scenario.Shard, error) {
	r, err := o.folder.Open(ctx)
	if err != nil {
		return nil, err
	}
	pinned := *o.Case
	pinned.Query.Pin = pin
	shards, err := r.Read(ctx, &pinned, warehouse.Prediction{}, loader.Options{Budget: o.budget})
	for _, s := range shards {
		o.seen["entries read from their columns"] += len(s.Report.Promoted)
	}
	return shards, err
}

// change makes a random change of the tables, and returns its name. It reads the query again, and
// returns an error unless it has the batches of before. Appended training rows change before.
func (o *world) change(ctx context.Context, before *[]scenario.Shard) (what string, err error) {
	switch o.IntN(6) {
	case 0, 1, 2:
		what = "promote"
		err = o.promote(ctx)
	case 3:
		what = "demote"
		err = o.demote(ctx)
	case 4:
		what = "append staging rows"
		err = o.appendStaging(ctx)
	default:
		return "append training rows", o.appendTraining(ctx, before)
	}
	if err != nil {
		return what, err
	}
	now, err := o.read(ctx)
	if err != nil {
		return what, err
	}
	return fmt.Sprintf("%s, promoted are %v", what, o.promoted), sameShards(*before, now)
}

// sameShards returns an error unless two reads returned the same schemas and batches.
func sameShards(before, now []scenario.Shard) error {
	if len(before) != len(now) {
		return fmt.Errorf("%d shards, not %d", len(now), len(before))
	}
	for i, s := range now {
		if a, b := before[i].Schema.String(), s.Schema.String(); a != b {
			return fmt.Errorf("the schema was\n%s\nand is\n%s", a, b)
		}
		if a, b := len(before[i].Batches), len(s.Batches); a != b {
			return fmt.Errorf("shard %d had %d batches, and has %d", i, a, b)
		}
		for k, b := range s.Batches {
			if was, is := scenario.Texts(before[i].Batches[k]), scenario.Texts(b); !slices.Equal(was, is) {
				return fmt.Errorf("batch %d of shard %d had %v and has %v", k, i, was, is)
			}
		}
	}
	return nil
}

// promote promotes some entries that are not promoted. Entries that cannot be promoted are refused,
// and change nothing.
func (o *world) promote(ctx context.Context) error {
	var names []string
	for _, s := range o.Dataset.Staging {
		given := s.Join == rule.Left || s.Join == rule.Overlay
		if given && s.Duplicates != rule.DuplicatesAll && !slices.Contains(o.promoted, s.Name) && o.IntN(3) > 0 {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	d, err := o.Decoded()
	if err != nil {
		return err
	}
	earlier := []promote.Earlier{promote.Continue, promote.Restart}[o.IntN(2)]
	_, err = o.promoter.Promote(ctx, promote.PromotionRequest{Dataset: d, Entries: names, Earlier: earlier})
	if refused(err) {
		o.seen["refused: "+o.reason(err)]++
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.ever[name] {
			o.seen["promoted again"]++
		}
		o.ever[name] = true
	}
	o.promoted = append(o.promoted, names...)
	o.seen["promoted"]++
	return nil
}

// refused reports whether an error refuses a read or a promotion. The kind is Expired if the files of
// pinned tables have no order any more, because snapshots have expired.
func refused(err error) bool {
	return slices.Contains([]fault.Kind{fault.Invalid, fault.Conflict, fault.Expired}, fault.KindOf(err))
}

// reason returns the first words of an error.
func (o *world) reason(err error) string {
	words := strings.Fields(strings.NewReplacer(o.Name, "…").Replace(err.Error()))
	return strings.Join(words[:min(len(words), 16)], " ")
}

// demote takes the columns of one promoted entry back, with those of the entries that were promoted
// together with it.
func (o *world) demote(ctx context.Context) error {
	if len(o.promoted) == 0 {
		return nil
	}
	entry := o.promoted[o.IntN(len(o.promoted))]
	state, err := o.tables.State(ctx, o.Training.Name, commit.Main)
	if err != nil {
		return err
	}
	for _, f := range state.Table.Fields {
		if state.Table.Origins[f.ID].Entry != entry {
			continue
		}
		got, err := o.promoter.Demote(ctx, promote.DemotionRequest{Table: o.Training.Name, Columns: []string{f.Name}})
		if fault.KindOf(err) == fault.Conflict && strings.Contains(err.Error(), "was promoted later") {
			o.seen["later overlays are taken back first"]++
			return nil
		}
		if err != nil {
			return err
		}
		o.promoted = slices.DeleteFunc(o.promoted, func(name string) bool { return slices.Contains(got.Entries, name) })
		o.seen["demoted"]++
		return nil
	}
	return errors.New("the table has no column of a promoted entry")
}

// appendStaging appends copies of rows to a staging table. Promoted entries keep the values of their
// snapshots, and the others are read at theirs.
func (o *world) appendStaging(ctx context.Context) error {
	if o.pin == nil {
		o.pin = map[string]dataset.TablePin{}
	}
	for _, s := range o.Dataset.Staging {
		if _, ok := o.pin[s.Name]; ok {
			return nil // once is enough
		}
		pinned, err := o.tables.Table(ctx, s.Table, dataset.Ref{})
		if err != nil {
			return err
		}
		o.pin[s.Name] = pinned.Pin
	}
	for _, s := range o.Staging {
		now, err := o.tables.Table(ctx, s.Name, dataset.Ref{})
		if err != nil {
			return err
		}
		if err := o.appendCopy(ctx, now, func(catalog.File) bool { return true }); err != nil {
			return err
		}
	}
	o.seen["staging rows appended"]++
	return nil
}

// appendTraining appends copies of training rows, with or without their promoted values. A read
// returns the same batches before and after the entries are promoted again, so that no file lacks
// their columns, and after all entries are demoted, so that they are joined.
func (o *world) appendTraining(ctx context.Context, before *[]scenario.Shard) error {
	now, err := o.tables.Table(ctx, o.Training.Name, dataset.Ref{})
	if err != nil {
		return err
	}
	whole := o.IntN(2) == 0
	if whole || len(o.promoted) == 0 {
		err = o.appendCopy(ctx, now, func(f catalog.File) bool { return f.Original != "" || len(o.promoted) == 0 })
	} else {
		err = o.appendCopy(ctx, o.bare, func(catalog.File) bool { return true })
	}
	if err != nil {
		return err
	}
	stored, err := o.read(ctx)
	if err != nil {
		return err
	}
	if !whole {
		if err := o.fill(ctx, stored); err != nil {
			return err
		}
	}
	for len(o.promoted) > 0 {
		if err := o.demote(ctx); err != nil {
			return err
		}
	}
	if *before, err = o.read(ctx); err != nil {
		return err
	}
	o.seen["training rows appended"]++
	return sameShards(*before, stored)
}

// fill promotes all promoted entries again, and compares a read with the one before.
func (o *world) fill(ctx context.Context, before []scenario.Shard) error {
	if len(o.promoted) == 0 {
		return nil
	}
	d, err := o.Decoded()
	if err != nil {
		return err
	}
	got, err := o.promoter.Promote(ctx, promote.PromotionRequest{Dataset: d, Entries: o.promoted})
	if refused(err) {
		o.seen["not filled: "+o.reason(err)]++
		return nil
	}
	if err != nil {
		return err
	}
	o.seen["files filled"] += got.Files
	now, err := o.read(ctx)
	if err != nil {
		return err
	}
	if err := sameShards(before, now); err != nil {
		return fmt.Errorf("after %d files got their columns: %w", got.Files, err)
	}
	got, err = o.promoter.Promote(ctx, promote.PromotionRequest{Dataset: d, Entries: o.promoted})
	if err == nil && got.Files > 0 {
		err = fmt.Errorf("%d files still lacked columns", got.Files)
	}
	return err
}

// appendCopy appends a copy of a wanted file of a pinned table as a file of another program.
func (o *world) appendCopy(ctx context.Context, pinned *catalog.Table, wanted func(catalog.File) bool) error {
	files, err := o.tables.Files(ctx, pinned, nil, nil)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f catalog.File) bool { return !wanted(f) })
	if len(files) == 0 {
		return nil
	}
	of := files[o.IntN(len(files))]
	described, err := o.tables.DataFiles(ctx, pinned, func(location string) bool { return location == of.Location })
	if err != nil {
		return err
	}
	path, err := store.Path(of.Location)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	o.copies++
	name := fmt.Sprintf("copy-%d.parquet", o.copies)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), content, 0o600); err != nil {
		return err
	}
	added := described[0]
	added.Location = of.Location[:strings.LastIndexByte(of.Location, '/')+1] + name
	added.Sequence, added.Snapshot, added.FirstRow = 0, 0, nil
	_, err = o.tables.Commit(ctx, commit.Change{
		Table: pinned.Name, UUID: pinned.Pin.UUID, Token: commit.NewToken(time.Now(), name), Add: []commit.DataFile{added},
	})
	if fault.KindOf(err) == fault.Invalid { // two fields of decimals, say: stage-83
		o.seen["manifests of a table cannot be written"]++
		return nil
	}
	return err
}
