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
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stream"
	"github.com/penstock/penstock/loader/transaction"
)

// finish writes what files lack, checks what was written, and prepares to make the schema current. If others commit first,
// their files are taken in by another attempt.
func (p *promoting) finish(ctx context.Context, a *transaction.Attempt) error {
	p.state = a.State
	if made, err := p.rewrite(ctx); made || err != nil {
		return err
	}
	schema, err := p.reserve(ctx) // others may have added columns since
	if err != nil {
		return err
	}
	p.schema = schema
	if err := p.checkMatches(ctx); err != nil {
		return err
	}
	if p.state.Table.HasSnapshot() {
		if err := p.compare(ctx); err != nil {
			return err
		}
	}
	move := commit.SchemaMove{Table: p.table, UUID: p.state.Table.Pin.UUID, From: p.state.Current, To: schema}
	if p.state.Table.HasSnapshot() {
		move.Head = p.state.Table.Pin.Snapshot
	}
	a.Commit = func(ctx context.Context) (commit.Committed, error) {
		err := p.tables.SetSchema(ctx, move)
		if err == nil {
			p.result.Before, p.result.Schema = p.state.Current, schema
		}
		return commit.Committed{}, err
	}
	return nil
}

// checkMatches reads the keys of the training rows, if an entry has a rule that could fail: for missing keys, or few matches, and in a dry
// run for keys of several rows, which the join itself refuses. Rows that were checked before, and moved to other files since, are not
// read again.
func (p *promoting) checkMatches(ctx context.Context) error {
	d := p.definition.checked
	fails := func(s dataset.Staging) bool {
		return s.MinMatch > 0 || s.Missing.Fail() || p.request.DryRun && s.Duplicates.Fail()
	}
	at := p.state.Table.Pin.Snapshot
	if !p.state.Table.HasSnapshot() || p.matchedAt == at || !slices.ContainsFunc(d.Staging, fails) {
		return nil
	}
	d.Staging = slices.DeleteFunc(slices.Clone(d.Staging), func(s dataset.Staging) bool { return !fails(s) })
	d.Training.RequestLevel = nil
	pins := map[string]dataset.TablePin{}
	for _, s := range d.Staging {
		pins[s.Name] = p.definition.pins[s.Name]
	}
	reader := p.options.Loader(p.options.Catalog)
	query := dataset.Query{
		Rows: dataset.Rows{Inline: &d, Pin: dataset.Pin{Training: p.state.Table.Pin, Staging: pins}, Order: dataset.Stored, Lanes: 1},
		Reading: dataset.Reading{
			Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff, Columns: []dataset.Column{{Column: d.Staging[0].Key[0].Training}},
		},
	}
	report, err := p.read(ctx, reader, query, func(arrow.RecordBatch) error { return nil })
	for _, s := range d.Staging {
		if of := report.Staging[s.Name]; err == nil && float64(of.Matched) < s.MinMatch*float64(of.Rows) {
			err = fault.New(fault.Invalid, "%d of %d training rows match entry %s, fewer than its min_match of %v", of.Matched, of.Rows, s.Name, s.MinMatch).
				WithRemedy("stage the keys that are missing, or lower min_match")
		}
	}
	if err == nil {
		p.matchedAt = at
	}
	return fault.Op(err, "check the matches of the training rows")
}

// read calls each with all batches of a query, and returns the report of the stream.
func (p *promoting) read(ctx context.Context, reader *loader.Loader, query dataset.Query, each func(arrow.RecordBatch) error) (out stream.Report, err error) {
	ctx, entered := p.options.Budget.Enter(ctx, "promote")
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

// compareRows is about the number of rows that are read again.
const compareRows = 1 << 20

// compare reads rows of the new files, and compares the new columns with the join.
func (p *promoting) compare(ctx context.Context) error {
	files, err := p.files(ctx)
	if err != nil {
		return err
	}
	chosen := p.sample(files)
	if len(chosen) == 0 {
		return nil
	}
	raw, err := p.withNew(ctx)
	if err != nil {
		return err
	}
	raw.wanted = func(f catalog.File) bool { return chosen[f.Location] }
	d := p.definition.dataset
	query := dataset.Query{
		Rows:    dataset.Rows{Inline: &d, Pin: dataset.Pin{Training: raw.table.Pin, Staging: p.definition.pins}, Order: dataset.Stored, Lanes: 1},
		Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff},
	}
	for _, c := range p.definition.columns {
		query.Columns = append(query.Columns, dataset.Column{Column: c.name}, dataset.Column{Column: c.storedName()})
	}
	_, err = p.read(ctx, p.options.Loader(raw), query, p.equal)
	for location := range chosen {
		p.compared[location] = true
	}
	return fault.Op(err, "read the new columns again")
}

// sample chooses files that were not compared before, evenly.
func (p *promoting) sample(files []catalog.File) map[string]bool {
	var fresh []catalog.File
	rows := int64(0)
	for _, f := range files {
		if f.Rows > 0 && !p.compared[f.Location] {
			fresh, rows = append(fresh, f), rows+f.Rows
		}
	}
	out := map[string]bool{}
	seen, taken := int64(0), int64(0)
	for _, f := range fresh {
		// A file is taken if the share of rows that were taken is behind.
		if rows <= compareRows || taken*rows <= seen*compareRows {
			out[f.Location], taken = true, taken+f.Rows
		}
		seen += f.Rows
	}
	return out
}

// storedName is the name of the stored column while it is compared with the joined one.
func (c newColumn) storedName() string { return c.name + "__promoted_" + strconv.Itoa(c.column.ID) }

// withNew returns the training table with the reserved schema, in which joined columns have their names and stored ones another.
func (p *promoting) withNew(ctx context.Context) (rawTable, error) {
	pin := p.state.Table.Pin
	pin.Schema = p.schema
	t, err := p.options.Catalog.At(ctx, p.result.Table, pin)
	if err != nil {
		return rawTable{}, err
	}
	renamed := *t
	renamed.Fields = slices.Clone(t.Fields)
	for i, f := range renamed.Fields {
		for _, c := range p.definition.columns {
			switch f.ID {
			case c.column.ID:
				renamed.Fields[i].Name = c.storedName()
			case c.replaces:
				renamed.Fields[i].Name = c.name
			}
		}
	}
	return rawTable{Catalog: p.options.Catalog, name: p.result.Table, table: &renamed}, nil
}

// equal compares the stored columns of a batch with the joined ones.
func (p *promoting) equal(b arrow.RecordBatch) error {
	for _, c := range p.definition.columns {
		want, got := column(b, c.name), column(b, c.storedName())
		if !array.ApproxEqual(want, got, array.WithNaNsEqual(true), array.WithAbsTolerance(0)) {
			return fault.New(fault.Corrupt, "column %s has other values than the join returns", c.name).In(p.result.Table, "").
				WithRemedy("the table's columns are unchanged; begin again with --restart, and report this")
		}
	}
	p.result.Compared += b.NumRows()
	return nil
}

// column returns the column of a name.
func column(b arrow.RecordBatch, name string) arrow.Array {
	return b.Column(b.Schema().FieldIndices(name)[0])
}
