package promote

import (
	"context"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stream"
)

// rowChecks reads rows of the training table to check that the entries can be promoted and that the
// new columns are correct. It records what it has checked.
type rowChecks struct {
	options   Options
	compared  map[string]bool // files whose new columns were compared with the join
	matchedAt int64           // the snapshot whose rows passed the rules of the entries; 0: no snapshot yet
}

// matches joins the keys of the training rows if an entry has a rule that can fail: for missing
// keys, for too few matches and, in a dry run, for duplicate keys, which otherwise fail the
// rewrite. It does not check rows again that it has checked and that were since only moved to other
// files.
func (c *rowChecks) matches(ctx context.Context, t trainingTable, of *definition, dryRun bool) error {
	d := of.checked
	fails := func(s dataset.Staging) bool {
		return s.MinMatch > 0 || s.Missing.Fail() || dryRun && s.Duplicates.Fail()
	}
	at := t.state.Table.Pin.Snapshot
	if !t.state.Table.HasSnapshot() || c.matchedAt == at || !slices.ContainsFunc(d.Staging, fails) {
		return nil
	}
	d.Staging = slices.DeleteFunc(slices.Clone(d.Staging), func(s dataset.Staging) bool { return !fails(s) })
	d.Training.RequestLevel = nil
	pins := map[string]dataset.TablePin{}
	for _, s := range d.Staging {
		pins[s.Name] = of.pins[s.Name]
	}
	reader := c.options.Loader(c.options.Catalog)
	query := dataset.Query{
		Rows: dataset.Rows{Inline: &d, Pin: dataset.Pin{Training: t.state.Table.Pin, Staging: pins}, Order: dataset.Stored, Lanes: 1},
		Reading: dataset.Reading{
			Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff, Columns: []dataset.Column{{Column: d.Staging[0].Key[0].Training}},
		},
	}
	report, err := c.read(ctx, reader, query, func(arrow.RecordBatch) error { return nil })
	for _, s := range d.Staging {
		if n := report.Staging[s.Name]; err == nil && float64(n.Matched) < s.MinMatch*float64(n.Rows) {
			err = fault.New(fault.Invalid, "%d of %d training rows match entry %s, fewer than its min_match of %v", n.Matched, n.Rows, s.Name, s.MinMatch).
				WithRemedy("stage the keys that are missing, or lower min_match")
		}
	}
	if err == nil {
		c.matchedAt = at
	}
	return fault.Op(err, "check the matches of the training rows")
}

// read calls each for every batch of a query, and returns the report of the stream.
func (c *rowChecks) read(ctx context.Context, reader *loader.Loader, query dataset.Query, each func(arrow.RecordBatch) error) (out stream.Report, err error) {
	ctx, entered := c.options.Budget.Enter(ctx, "promote")
	defer entered.Release()
	planned, err := reader.Plan(ctx, query.Defaults())
	if err != nil {
		return out, err
	}
	rows, err := reader.Open(ctx, planned, loader.StreamOptions{})
	if err != nil {
		return out, err
	}
	defer reader.DropKeptBuildSides()
	defer rows.Release()
	for rows.Next() {
		if err := each(rows.RecordBatch()); err != nil {
			return out, err
		}
	}
	return rows.Report(), rows.Err()
}

// compareRows is the approximate number of rows that are read back.
const compareRows = 1 << 20

// storedName returns the name of the stored column while it is compared with the joined one.
func (c newColumn) storedName() string { return c.name + "__promoted_" + strconv.Itoa(c.column.ID) }

// column returns the column with the given name.
func column(b arrow.RecordBatch, name string) arrow.Array {
	return b.Column(b.Schema().FieldIndices(name)[0])
}

// compare compares the new columns of some files with the join, and returns the number of compared
// rows.
func (c *rowChecks) compare(ctx context.Context, t trainingTable, of *definition, schema int) (rows int64, err error) {
	files, err := t.files(ctx, c.options.Catalog)
	if err != nil {
		return 0, err
	}
	raw, err := c.withNew(ctx, t, of, schema)
	if err != nil {
		return 0, err
	}
	return c.compareFiles(ctx, raw, of, files)
}

// compareFiles compares the new columns of a sample of the given files with the join.
func (c *rowChecks) compareFiles(ctx context.Context, raw rawTable, of *definition, files []catalog.File) (rows int64, err error) {
	chosen := c.sample(files)
	if len(chosen) == 0 {
		return 0, nil
	}
	raw.wanted = func(f catalog.File) bool { return chosen[f.Location] }
	d := of.dataset
	query := dataset.Query{
		Rows:    dataset.Rows{Inline: &d, Pin: dataset.Pin{Training: raw.table.Pin, Staging: of.pins}, Order: dataset.Stored, Lanes: 1},
		Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff},
	}
	for _, n := range of.columns {
		query.Columns = append(query.Columns, dataset.Column{Column: n.name}, dataset.Column{Column: n.storedName()})
	}
	_, err = c.read(ctx, c.options.Loader(raw), query, func(b arrow.RecordBatch) error {
		if err := equal(raw.name, of, b); err != nil {
			return err
		}
		rows += b.NumRows()
		return nil
	})
	for location := range chosen {
		c.compared[location] = true
	}
	return rows, fault.Op(err, "read the new columns again")
}

// sample returns an even sample of the files that were not compared before.
func (c *rowChecks) sample(files []catalog.File) map[string]bool {
	var fresh []catalog.File
	rows := int64(0)
	for _, f := range files {
		if f.Rows > 0 && !c.compared[f.Location] {
			fresh, rows = append(fresh, f), rows+f.Rows
		}
	}
	out := map[string]bool{}
	seen, taken := int64(0), int64(0)
	for _, f := range fresh {
		// Take a file if the share of rows taken so far is too small.
		if rows <= compareRows || taken*rows <= seen*compareRows {
			out[f.Location], taken = true, taken+f.Rows
		}
		seen += f.Rows
	}
	return out
}

// withNew returns the training table with the new columns of a schema. It renames them, so that the
// joined columns can have their names, and removes the origins, so that the entries are joined.
func (c *rowChecks) withNew(ctx context.Context, t trainingTable, of *definition, schema int) (rawTable, error) {
	pin := t.state.Table.Pin
	pin.Schema = schema
	at, err := c.options.Catalog.At(ctx, t.shown, pin)
	if err != nil {
		return rawTable{}, err
	}
	renamed := *t.named()
	renamed.Pin, renamed.Fields, renamed.Origins = at.Pin, slices.Clone(renamed.Fields), nil
	for _, n := range of.columns {
		f, ok := at.ByID(n.column.ID)
		if !ok {
			return rawTable{}, fault.New(fault.Internal, "schema %d of table %s has no column %d", schema, t.shown, n.column.ID)
		}
		f.Name = n.storedName()
		renamed.Fields = append(renamed.Fields, f)
	}
	return rawTable{Catalog: c.options.Catalog, name: t.shown, table: &renamed}, nil
}

// equal returns an error if a stored column of a batch differs from the joined column.
func equal(table string, of *definition, b arrow.RecordBatch) error {
	for _, c := range of.columns {
		want, got := column(b, c.name), column(b, c.storedName())
		if !array.ApproxEqual(want, got, array.WithNaNsEqual(true), array.WithAbsTolerance(0)) {
			return fault.New(fault.Corrupt, "column %s has other values than the join returns", c.name).In(table, "").
				WithRemedy("the table's columns are unchanged; begin again with --restart, and report this")
		}
	}
	return nil
}
