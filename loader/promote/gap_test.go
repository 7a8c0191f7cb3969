package promote_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/promote"
	"github.com/penstock/penstock/loader/stream"
)

// answer is the result of a query.
type answer struct {
	Schema  *arrow.Schema
	Rows    []string // in order
	Cursors []dataset.Cursor
	Report  stream.Report
	Pin     dataset.Pin
}

// ask runs a query on a dataset.
func (r *rig) ask(t *testing.T, d dataset.Dataset, q dataset.Query) answer {
	t.Helper()
	out, err := r.tryAsk(t, d, q)
	require.NoError(t, err)
	return out
}

func (r *rig) tryAsk(t *testing.T, d dataset.Dataset, q dataset.Query) (answer, error) {
	t.Helper()
	return r.askAs(t, d, q, policy.Rights{})
}

// askAs is tryAsk with the rights of a client.
func (r *rig) askAs(t *testing.T, d dataset.Dataset, q dataset.Query, rights policy.Rights) (out answer, err error) {
	t.Helper()
	l := r.loader(t)(&r.tables)
	l.SetDatasets([]dataset.Dataset{d.Defaults()})
	q.Dataset = d.Name
	if q.Shard.Of == 0 {
		q.Shard.Of = 1
	}
	planned, err := l.PlanFor(t.Context(), loader.PlanRequest{Query: q, Rights: rights})
	if err != nil {
		return out, err
	}
	rows, err := l.Open(t.Context(), planned, loader.StreamOptions{})
	if err != nil {
		return out, err
	}
	defer rows.Release()
	out.Schema, out.Pin, out.Rows = rows.Schema(), planned.Rows.Pin, []string{}
	for rows.Next() {
		b := rows.RecordBatch()
		for i := range int(b.NumRows()) {
			var values []string
			for k := range int(b.NumCols()) {
				values = append(values, b.Column(k).ValueStr(i))
			}
			out.Rows = append(out.Rows, strings.Join(values, " "))
		}
		out.Cursors = append(out.Cursors, rows.Cursor())
	}
	out.Report = rows.Report()
	return out, rows.Err()
}

// promoteAll promotes entries of a dataset.
func (r *rig) promoteAll(t *testing.T, d dataset.Dataset, entries ...string) {
	t.Helper()
	_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: entries})
	require.NoError(t, err)
}

// same requires that a query returns the same schema and rows as before.
func same(t *testing.T, before, now answer, text string) {
	t.Helper()
	require.True(t, before.Schema.Equal(now.Schema), "%s: %s\n%s", text, before.Schema, now.Schema)
	require.Equal(t, before.Rows, now.Rows, text)
}

// features3 returns a dataset with three entries: a left join, a left join with defaults that
// reports its matches, and an overlay.
func features3() dataset.Dataset {
	return dataset.Dataset{
		Name: "home", Training: dataset.Training{Table: rowsTable}, Key: []string{"key"},
		Staging: []dataset.Staging{
			{Table: features, Name: "left", Prefix: "l_"},
			{
				Table: features, Name: "matched", Columns: []dataset.Column{{Column: "f", Name: "m"}}, MatchedAs: "has",
				Missing: rule.MissingDefault, Defaults: []dataset.Default{{Column: "m", Value: int64(-1)}},
			},
			{Table: features, Name: "over", Join: rule.Overlay, Columns: []dataset.Column{{Column: "f", Name: "row"}}},
		},
	}
}

// A dataset returns the same rows and columns while its entries are joined and after they are
// promoted, demoted, and promoted again.
//
// spec: promote-18, promote-19, promote-24
func TestQueriesGoOnWhenEntriesArePromoted(t *testing.T) {
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto, dataset.WireIndexed} {
		r := newRig(t)
		r.create(t, 2)
		d := features3()
		queries := map[string]dataset.Query{
			"all":     {},
			"columns": {Reading: dataset.Reading{Columns: []dataset.Column{{Column: "has"}, {Column: "row"}, {Column: "l_f", Name: "x"}}}},
			"filter":  {Rows: dataset.Rows{Filter: datasettest.Filter("l_f > 5 or row = 4")}},
			"few":     {Reading: dataset.Reading{BatchRows: 3}},
		}
		before := map[string]answer{}
		for name, q := range queries {
			q.Wire = wire
			before[name] = r.ask(t, d, q)
		}
		check := func(text string) {
			for name, q := range queries {
				q.Wire = wire
				same(t, before[name], r.ask(t, d, q), text+" "+name)
				for _, c := range before[name].Cursors { // from before the first promotion
					rest := q
					rest.Cursor = dataset.Cursors{c}
					rest.BatchRows = q.BatchRows
					got := r.ask(t, d, rest)
					at := len(before[name].Rows) - len(got.Rows)
					require.Equal(t, before[name].Rows[at:], got.Rows, "%s %s from %v", text, name, c.At)
				}
			}
		}
		check("before")
		for _, entry := range []string{"matched", "over", "left"} {
			r.promoteAll(t, d, entry)
			check(entry + " promoted")
		}
		_, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"m"}})
		require.NoError(t, err)
		check("demoted")
		r.promoteAll(t, d, "matched")
		check("promoted again")
		shuffled := dataset.Query{Rows: dataset.Rows{Order: dataset.Shuffled, Shuffle: dataset.ShuffleRows, Lanes: 2, Seed: 7}, Reading: dataset.Reading{Wire: wire}}
		require.ElementsMatch(t, before["all"].Rows, r.ask(t, d, shuffled).Rows)
		got := r.ask(t, d, dataset.Query{})
		require.Equal(t, map[string]int64{"left": got.Pin.Staging["left"].Snapshot, "matched": got.Pin.Staging["matched"].Snapshot, "over": got.Pin.Staging["over"].Snapshot},
			got.Report.Promoted)
		require.Empty(t, got.Report.Staging)
		require.Empty(t, got.Report.Unread)
	}
}

// A query after the promotion reads the promoted values, even if the staging table has changed. A
// query that pins another snapshot of the staging table joins that snapshot.
//
// spec: promote-20, promote-21
func TestPromotedValuesAreThoseOfTheirSnapshot(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	before := r.ask(t, d, dataset.Query{})
	r.promoteAll(t, d, "left", "over")
	r.append(t, features, `{"key": 9, "f": 90}`)
	now, err := r.tables.Table(t.Context(), features, dataset.Ref{})
	require.NoError(t, err)
	columns := dataset.Query{Reading: dataset.Reading{Columns: []dataset.Column{{Column: "key"}, {Column: "l_f"}, {Column: "row"}}}}
	got := r.ask(t, d, columns)
	require.Contains(t, got.Rows, "9 4 (null)")
	require.Equal(t, before.Pin.Staging["left"], got.Pin.Staging["left"])
	columns.Pin = dataset.Pin{Staging: map[string]dataset.TablePin{"left": {Snapshot: now.Pin.Snapshot}, "over": {Snapshot: now.Pin.Snapshot}}}
	got = r.ask(t, d, columns)
	require.Contains(t, got.Rows, "9 90 90")
	require.Equal(t, now.Pin, got.Pin.Staging["over"])
	// A cursor resumes the read at the pinned snapshot.
	columns.BatchRows = 2
	whole := r.ask(t, d, columns)
	rest := columns
	rest.Pin, rest.Cursor = dataset.Pin{}, dataset.Cursors{whole.Cursors[0]}
	require.Equal(t, whole.Rows[2:], r.ask(t, d, rest).Rows)
}

// The table of a promoted entry is not opened, so the entry is readable after its table was dropped. At
// pins from before the promotion, the error names the table.
//
// spec: promote-20
func TestPromotedEntriesNeedNoStagingTable(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	before := r.ask(t, d, dataset.Query{})
	r.promoteAll(t, d, "left", "matched", "over")
	require.NoError(t, r.others.DropTable(t.Context(), strings.Split(features, ".")))
	r.tables.opened = []string{}
	same(t, before, r.ask(t, d, dataset.Query{}), "dropped")
	require.Equal(t, []string{rowsTable}, r.tables.opened)
	r.tables.opened = nil
	_, err := r.tryAsk(t, d, dataset.Query{Rows: dataset.Rows{Pin: before.Pin}})
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.ErrorContains(t, err, "staging table left")
	require.ErrorContains(t, err, features)
	d.Staging[0].Prefix = "other_"
	_, err = r.tryAsk(t, d, dataset.Query{})
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
}

// An indexed query sends rows of the staging table, so it joins promoted entries, at the snapshot that
// was promoted. It fails if the table does not have that snapshot any more.
//
// spec: promote-28
func TestIndexedQueriesJoinPromotedEntries(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	indexed := dataset.Query{Reading: dataset.Reading{Wire: dataset.WireIndexed}}
	before := r.ask(t, d, indexed)
	r.promoteAll(t, d, "left", "matched", "over")
	r.append(t, features, `{"key": 9, "f": 90}`)
	got := r.ask(t, d, indexed)
	same(t, before, got, "promoted")
	require.Equal(t, before.Pin.Staging, got.Pin.Staging)
	require.Empty(t, got.Report.Promoted)
	require.Equal(t, before.Report.Staging, got.Report.Staging)
	require.NoError(t, r.others.DropTable(t.Context(), strings.Split(features, ".")))
	require.Len(t, r.ask(t, d, dataset.Query{}).Rows, 8)
	_, err := r.tryAsk(t, d, indexed)
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.ErrorContains(t, err, "wire: indexed")
	require.Contains(t, fault.As(err).Remedy, "use wire: plain or auto")
}

// An entry that differs from the promoted one is joined, and takes the place of the promoted columns.
//
// spec: promote-22
func TestEntriesThatDifferFromThePromotedOnes(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	datasets := map[string]dataset.Dataset{}
	for name, change := range map[string]func(d *dataset.Dataset){
		"duplicates": func(d *dataset.Dataset) { d.Staging[0].Duplicates = rule.DuplicatesFirst },
		"default":    func(d *dataset.Dataset) { d.Staging[1].Defaults = []dataset.Default{{Column: "m", Value: int64(-2)}} },
		"nulls":      func(d *dataset.Dataset) { d.Staging[2].Nulls = rule.NullsKeep },
		"name":       func(d *dataset.Dataset) { d.Staging[0].Name = "other" },
		"fewer":      func(d *dataset.Dataset) { d.Staging = d.Staging[1:] },
		"filter": func(d *dataset.Dataset) {
			d.Training.Filter = datasettest.Filter("row < 7")
			d.Staging[2].Nulls = rule.NullsKeep
		},
	} {
		d := features3()
		change(&d)
		datasets[name] = d
	}
	before := map[string]answer{}
	for name, d := range datasets {
		before[name] = r.ask(t, d, dataset.Query{})
	}
	r.promoteAll(t, features3(), "left", "matched", "over")
	for name, d := range datasets {
		if name != "fewer" { // the promoted columns of the missing entry are columns of the training table
			same(t, before[name], r.ask(t, d, dataset.Query{}), name)
		}
	}
	// Rules that only check or speed up the join may change.
	d := datasets["fewer"]
	d.Staging[0].MinMatch, d.Staging[1].MaxAmplification = 0.9, 50
	got := r.ask(t, d, dataset.Query{})
	require.Len(t, got.Report.Promoted, 2)
	require.NotEmpty(t, got.Schema.FieldIndices("l_f"))
	// An entry of another table does not take the place of a promoted column.
	other := features3()
	other.Staging = []dataset.Staging{{Table: rowsTable, Name: "rows", Columns: []dataset.Column{{Column: "row", Name: "l_f"}}}}
	_, err := r.tryAsk(t, other, dataset.Query{})
	require.ErrorContains(t, err, `"l_f" of rows has the name of a column of the training table`)
	// Another program drops a column.
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	has, _ := state.Table.Field("has")
	schema, err := r.tables.AddSchema(t.Context(), commit.SchemaEdit{Table: rowsTable, UUID: state.Table.Pin.UUID, Base: state.Current, Drop: []int{has.ID}})
	require.NoError(t, err)
	require.NoError(t, r.tables.SetSchema(t.Context(), commit.SchemaMove{Table: rowsTable, UUID: state.Table.Pin.UUID, From: state.Current, To: schema}))
	whole := features3()
	got = r.ask(t, whole, dataset.Query{})
	require.Len(t, got.Report.Promoted, 2)
	require.Contains(t, got.Report.Staging, "matched")
}

// An entry is joined at a snapshot that has a file without its promoted columns: at a branch from before the promotion, and after
// training rows were added. The schema has the columns there, too.
//
// spec: promote-20, stage-34
func TestEntriesAreJoinedWhereFilesLackTheirColumns(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	trial := d
	trial.Training.Ref = dataset.Ref{Name: "trial"}
	r.appendTo(t, "trial", rowsTable, `{"row": 20, "key": 2}, {"row": 21, "key": 9}`)
	before, beforeTrial := r.ask(t, d, dataset.Query{}), r.ask(t, trial, dataset.Query{})
	r.promoteAll(t, d, "left", "matched", "over")
	same(t, before, r.ask(t, d, dataset.Query{}), "main")
	got := r.ask(t, trial, dataset.Query{})
	same(t, beforeTrial, got, "trial")
	require.Empty(t, got.Report.Promoted)

	columns := dataset.Query{Reading: dataset.Reading{Columns: []dataset.Column{{Column: "key"}, {Column: "l_f"}, {Column: "m"}, {Column: "has"}}}}
	r.append(t, rowsTable, `{"row__before_promotion": 30, "key": 2}, {"row__before_promotion": 31, "key": 8}`)
	got = r.ask(t, d, columns)
	require.Len(t, got.Rows, 10)
	require.Contains(t, got.Rows, "2 20 20 true")
	require.Contains(t, got.Rows, "8 (null) -1 false")
	require.NotContains(t, got.Report.Promoted, "left")
	require.NotContains(t, got.Report.Promoted, "matched")
}

// The rights of a client to a staging table apply to its promoted columns.
//
// spec: promote-23
func TestRightsApplyToPromotedEntries(t *testing.T) {
	limited := func(tables ...policy.TableLimits) policy.Rights {
		p := &policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Tables: tables}}}
		rights, _ := p.Read(identity.Caller{}, "home")
		return rights
	}
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	rights := map[string]policy.Rights{
		"rows":        limited(policy.TableLimits{Name: features, Filter: datasettest.Filter("f > 10")}),
		"column":      limited(policy.TableLimits{Name: features, Withheld: []string{"f"}}),
		"training":    limited(policy.TableLimits{Name: rowsTable, Withheld: []string{"row"}}),
		"key":         limited(policy.TableLimits{Name: rowsTable, Withheld: []string{"key"}}),
		"row filters": limited(policy.TableLimits{Name: rowsTable, Filter: datasettest.Filter("key = 1")}),
	}
	before := map[string]answer{}
	for name, of := range rights {
		got, err := r.askAs(t, d, dataset.Query{}, of)
		require.NoError(t, err, name)
		before[name] = got
	}
	r.promoteAll(t, d, "left", "matched")
	r.promoteAll(t, d, "over")
	r.append(t, features, `{"key": 9, "f": 90}`)
	for name, of := range rights {
		got, err := r.askAs(t, d, dataset.Query{}, of)
		require.NoError(t, err, name)
		same(t, before[name], got, name)
		require.Empty(t, got.Report.Promoted, name)
	}
	got, err := r.askAs(t, d, dataset.Query{}, limited(policy.TableLimits{Name: rowsTable, Withheld: []string{"l_f"}}))
	require.NoError(t, err)
	require.Empty(t, got.Schema.FieldIndices("l_f"))
	_, err = r.askAs(t, d, dataset.Query{}, limited(policy.TableLimits{Name: rowsTable, Filter: datasettest.Filter("row > 1")}))
	require.Equal(t, fault.Forbidden, fault.KindOf(err), err)
}

// A client whose rights limit a staging table does not see the columns that were promoted from it, in any dataset.
//
// spec: promote-23
func TestLimitsOfTablesFollowTheirValues(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	plain := features3()
	plain.Staging = nil
	p := &policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Tables: []policy.TableLimits{{Name: features, Withheld: []string{"f"}}}}}}
	limited, _ := p.Read(identity.Caller{}, "home")
	before := r.ask(t, plain, dataset.Query{})
	r.promoteAll(t, features3(), "left", "matched", "over")
	got, err := r.askAs(t, plain, dataset.Query{}, limited)
	require.NoError(t, err)
	same(t, before, got, "limited")
	for _, name := range []string{"l_f", "m", "has", "row__before_promotion"} {
		_, err := r.askAs(t, plain, dataset.Query{Reading: dataset.Reading{Columns: []dataset.Column{{Column: name}}}}, limited)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
	}
	_, err = r.askAs(t, plain, dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("l_f > 10")}}, limited)
	require.Equal(t, fault.Invalid, fault.KindOf(err), err)
	require.NotEmpty(t, r.ask(t, plain, dataset.Query{}).Schema.FieldIndices("l_f"))
}

// A query with a checkpoint from before a promotion names the entry itself if its dataset no longer
// has the entry.
//
// spec: promote-19
func TestCheckpointsOfDatasetsWithoutTheirEntry(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	d.Staging = d.Staging[:1]
	query := dataset.Query{Reading: dataset.Reading{BatchRows: 3, Columns: []dataset.Column{{Column: "row"}, {Column: "l_f"}}}}
	before := r.ask(t, d, query)
	r.promoteAll(t, d, "left")
	without := d
	without.Staging = nil
	query.Cursor = dataset.Cursors{before.Cursors[0]}
	_, err := r.tryAsk(t, without, query)
	require.ErrorContains(t, err, "it was promoted from entry left of table "+features+"; give the query that entry")
	query.With = d.Staging
	require.Equal(t, before.Rows[3:], r.ask(t, without, query).Rows)
	// An entry named by the query is also read from the promoted columns.
	query.Cursor = nil
	got := r.ask(t, without, query)
	same(t, before, got, "with")
	require.Contains(t, got.Report.Promoted, "left")
}

// Overlays of one column are promoted one after the other, and reads in between return the same
// values.
//
// spec: promote-18, promote-25, promote-67
func TestOverlaysOfOneColumn(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	first := d.Staging[2]
	first.Name, first.Filter = "first", datasettest.Filter("f = 20 or f is null")
	second := d.Staging[2]
	second.Nulls = rule.NullsKeep
	d.Staging = []dataset.Staging{first, second}
	d.Training.Filter = datasettest.Filter("row < 7") // on the values before any overlay
	before := r.ask(t, d, dataset.Query{})
	alone, turned := d, d
	alone.Staging, turned.Staging = d.Staging[:1], []dataset.Staging{second, first}
	beforeAlone, beforeTurned := r.ask(t, alone, dataset.Query{}), r.ask(t, turned, dataset.Query{})
	_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"first", "over"}})
	require.ErrorContains(t, err, "both overlay column row")
	_, err = r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"over"}})
	require.ErrorContains(t, err, "overlays after entry first")
	r.promoteAll(t, d, "first")
	same(t, before, r.ask(t, d, dataset.Query{}), "first")
	r.promoteAll(t, d, "over")
	same(t, before, r.ask(t, d, dataset.Query{}), "both")
	// Without the last overlay, and in another order, the column does not have the values of the datasets, which join.
	same(t, beforeAlone, r.ask(t, alone, dataset.Query{}), "alone")
	same(t, beforeTurned, r.ask(t, turned, dataset.Query{}), "turned")
	older := promote.DemotionRequest{Table: rowsTable, Columns: []string{r.promoted(t, "first")}}
	_, err = r.promoter.Demote(t.Context(), older)
	require.ErrorContains(t, err, "entry over was promoted later, and its column row replaced one of these columns")
	require.ErrorContains(t, fault.As(err), "take column row back, too")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"row"}})
	require.NoError(t, err)
	same(t, before, r.ask(t, d, dataset.Query{}), "first again")
	r.promoteAll(t, d, "over")
	out, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: append(older.Columns, "row")})
	require.NoError(t, err)
	require.Equal(t, []string{"row"}, out.Restored)
	same(t, before, r.ask(t, d, dataset.Query{}), "both taken back")
}

// promoted returns the name of the column that an entry was promoted to.
func (r *rig) promoted(t *testing.T, entry string) string {
	t.Helper()
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	for _, f := range state.Table.Fields {
		if state.Table.Origins[f.ID].Entry == entry {
			return f.Name
		}
	}
	require.Fail(t, "no column of the entry", entry)
	return ""
}
