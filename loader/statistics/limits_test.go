package statistics_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stage/stagetest"
	"github.com/penstock/penstock/loader/statistics"
)

// hostile is the name of a column that no output may interpret.
const hostile = "a.b \"<script>\x1b[31m'; DROP"

// limited is a table with a branch, whose limits are checked.
type limited struct {
	*stagetest.Rig
	t    *testing.T
	rows int            // that stage adds for each day
	read map[string]int // how many files were read, by the columns that were read
	base string         // of changes; "" is main
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	return &limited{Rig: stagetest.New(t, stagetest.Unlimited, nil), t: t, rows: 300, read: map[string]int{}}
}

func limitedSchema() *arrow.Schema {
	double := arrow.PrimitiveTypes.Float64
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "price", Type: double, Nullable: true},
		{Name: "kind", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "items", Type: arrow.ListOf(double), Nullable: true},
		{Name: hostile, Type: double, Nullable: true},
		{Name: "pair", Type: arrow.StructOf(arrow.Field{Name: "x", Type: double}), Nullable: true},
	}, nil)
}

// usual returns the values of the usual rows: prices from 1 to 10, and kinds of four letters.
func usual(i int) map[string]string {
	return map[string]string{
		"price": strconv.Itoa(1 + i%10), "kind": strconv.Quote(string(rune('a' + i%4))), "items": "[1, 2]", hostile: strconv.Itoa(1 + i%3), "pair": `{"x": 1}`,
	}
}

// stage adds rows of the days from first to last to a branch, and returns the snapshot. On the day bad, change changes the values.
func (l *limited) stage(branch string, first, last, bad int, change func(i int, values map[string]string)) string {
	l.t.Helper()
	var out strings.Builder
	for day := first; day <= last; day++ {
		for i := range l.rows {
			values := usual(i)
			if day == bad {
				change(i, values)
			}
			fmt.Fprintf(&out, `,{"id": %d, "day": "2026-10-%02d"`, day*100_000+i, day)
			for name, value := range values {
				fmt.Fprintf(&out, `, %s: %s`, strings.ReplaceAll(strconv.Quote(name), `\x1b`, `\u001b`), value)
			}
			out.WriteByte('}')
		}
	}
	write := dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Branch: branch}
	if first == 1 {
		write.Buckets, write.Partition = 1, []string{"day"}
	}
	return strconv.FormatInt(l.Stage(l.t, write, limitedSchema(), "["+out.String()[1:]+"]").Snapshot, 10)
}

// check checks limits at a snapshot or branch, with main as the base of changes.
func (l *limited) check(at string, limits ...dataset.ColumnLimits) (*drift.Checked, error) {
	l.t.Helper()
	held, err := l.Budget.Reserve("history", 0)
	require.NoError(l.t, err)
	defer held.Release()
	history, err := l.Tables.History(l.t.Context(), stagetest.History, held)
	require.NoError(l.t, err)
	used, read := l.Budget.InUse(), l.Tables.Read(l.Budget)
	out, err := statistics.New(statistics.Options{
		Tables: &l.Tables, Budget: l.Budget, Cores: cores.New(1),
		Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
			var names []string
			for _, c := range columns {
				names = append(names, c.Name)
			}
			l.read[strings.Join(names, ",")]++
			return read(ctx, source, columns)
		},
	}).Check(l.t.Context(), statistics.Request{History: history, At: at}, &statistics.Request{History: history, At: l.base}, dataset.Limits{Columns: limits})
	require.Equal(l.t, used, l.Budget.InUse(), "nothing stays reserved")
	return out, err
}

func bounds(column, measure string, limit float64) dataset.ColumnLimits {
	return dataset.ColumnLimits{Column: column, Bounds: []dataset.Limit{{Measure: measure, Value: limit}}}
}

func changes(column, measure string, limit float64) dataset.ColumnLimits {
	return dataset.ColumnLimits{Column: column, Changes: dataset.ChangeLimits{{Measure: measure, Value: limit}}}
}

// places returns the column, partition and measure of each broken limit.
func places(c *drift.Checked) (out []string) {
	for _, b := range c.Broken {
		out = append(out, strings.TrimSpace(b.Column+" "+b.Partition)+" "+string(b.Measure))
	}
	return out
}

// Each measure with a limit is broken by one bad day, which is named, and holds with a wider limit.
//
// spec: stats-80, stats-81, stats-82, stats-83
func TestALimitIsBrokenInOneDay(t *testing.T) {
	set := func(name, value string) func(int, map[string]string) {
		return func(i int, values map[string]string) {
			if i%2 == 0 {
				values[name] = value
			}
		}
	}
	scale := func(_ int, values map[string]string) { values["price"] += "000" }
	for name, c := range map[string]struct {
		change func(int, map[string]string)
		limit  func(column, measure string, limit float64) dataset.ColumnLimits
		// column and measure are those of the limits; broken is below the value, and holds is not.
		column, measure string
		broken, holds   float64
		text            string
	}{
		"nulls":             {set("price", "null"), bounds, "price", "nulls", 0.49, 0.5, "nulls are 50% of the rows (limit 49%)"},
		"not finite":        {set("price", `"NaN"`), bounds, "price", "not_finite", 0, 0.5, "NaN and infinite numbers are 50% of the values (limit 0%)"},
		"zeros":             {set("price", "0"), bounds, "price", "zeros", 0.4, 0.5, "zeros or empty texts are 50% of the values"},
		"empty texts":       {set("kind", `""`), bounds, "kind", "zeros", 0, 0.5, "zeros or empty texts"},
		"min":               {set("price", "-1"), bounds, "price", "min", 0, -1, "the least number is -1 (limit 0)"},
		"max":               {set("price", "10.25"), bounds, "price", "max", 10, 10.25, "the greatest number is 10.25 (limit 10)"},
		"lengths":           {set("items", "[]"), bounds, "items.lengths", "min", 1, 0, "the least number is 0 (limit 1)"},
		"elements":          {set("items", "[7, 1]"), bounds, "items.elements", "max", 2, 7, "the greatest number is 7 (limit 2)"},
		"change of nulls":   {set("price", "null"), changes, "price", "nulls", 0.2, 0.6, "nulls are 50% of the rows, and were 0%"},
		"change of NaN":     {set("price", `"NaN"`), changes, "price", "not_finite", 0.2, 0.6, "NaN and infinite numbers are 50% of the values, and were 0%"},
		"change of zeros":   {set("kind", `""`), changes, "kind", "zeros", 0.2, 0.6, "zeros or empty texts are 50% of the values, and were 0%"},
		"change of top":     {set("kind", `"x"`), changes, "kind", "top", 0.3, 0.6, "the value x is 50% of the values, and were 0%"},
		"change of form":    {set("kind", `"X-1"`), changes, "kind", "form", 0.3, 0.6, "upper-case letters, digits, '-' and another length are 50% of all texts that are not empty, and were 0%"},
		"change of unit":    {scale, changes, "price", "unit", 2, 1e6, "1000 times as large"},
		"change of mean":    {set("price", "10"), changes, "price", "mean", 0.5, 1.5, "standard deviations"},
		"change of psi":     {set("kind", `"x"`), changes, "kind", "psi", 0.3, 100, "the population stability index is"},
		"change of numbers": {scale, changes, "price", "psi", 0.3, 100, "the population stability index is"},
		"change of quantile": {
			set("price", "10"), changes, "price", "quantile", 0.4, 2, "the quantile",
		},
		"hostile names": {set(hostile, "-5"), bounds, hostile, "min", 0, -5, "the least number is -5 (limit 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimited(t)
			l.stage("", 1, 4, 0, nil)
			l.stage("candidate", 5, 8, 7, c.change)
			got, err := l.check("candidate", c.limit(c.column, c.measure, c.broken))
			require.NoError(t, err)
			require.Contains(t, places(got), c.column+" 2026-10-07 "+c.measure)
			for _, b := range got.Broken {
				require.True(t, b.Partition == "2026-10-07" || b.Partition == "" && !b.Bound, "%+v", b)
			}
			require.True(t, slices.ContainsFunc(got.Broken, func(b drift.Change) bool {
				return b.Partition != "" && strings.Contains(b.Text(), c.text)
			}), "%+v", got.Broken)
			got, err = l.check("candidate", c.limit(c.column, c.measure, c.holds))
			require.NoError(t, err)
			require.Empty(t, got.Broken)
			require.Equal(t, []any{int64(2400), "day", 8, []string{c.column}}, []any{got.Rows, got.Partition, got.Partitions, got.Columns})
			got, err = l.check("main", c.limit(c.column, c.measure, c.broken))
			require.NoError(t, err)
			require.Empty(t, got.Broken)
			require.Zero(t, got.Base, "main is not compared with itself")
		})
	}
}

// Only columns with limits are read, and of the base only those with limits of changes.
//
// spec: stats-86
func TestOnlyColumnsWithLimitsAreRead(t *testing.T) {
	l := newLimited(t)
	base := l.stage("", 1, 2, 0, nil)
	l.stage("candidate", 3, 3, 0, nil)
	got, err := l.check("candidate", bounds("price", "nulls", 0), changes("kind", "top", 0.9), bounds("items.lengths", "max", 2))
	require.NoError(t, err)
	require.Empty(t, got.Broken)
	require.Equal(t, []any{base, int64(600)}, []any{strconv.FormatInt(got.Base, 10), got.BaseRows})
	require.Equal(t, map[string]int{"price,kind,items": 3, "kind": 2}, l.read)
}

// A limit that does not fit the table is an error, and never holds silently.
//
// spec: stats-84
func TestLimitsThatDoNotFit(t *testing.T) {
	l := newLimited(t)
	l.stage("", 1, 1, 0, nil)
	for _, c := range []struct {
		limit dataset.ColumnLimits
		kind  fault.Kind
		text  string
	}{
		{bounds("prize", "nulls", 0), fault.NotFound, `no column "prize"`},
		{bounds("items.lenghts", "min", 0), fault.NotFound, `column "items.lenghts", which has limits, is neither`},
		{bounds("pair", "nulls", 0), fault.NotFound, `column "pair", which has limits, is neither`},
		{bounds("kind", "max", 0), fault.Invalid, `column "kind" has the limit max, which values of type utf8 do not have`},
		{bounds("day", "zeros", 0), fault.Invalid, `column "day" has the limit zeros`},
		{changes("price", "form", 1), fault.Invalid, `column "price" has the limit form`},
		{changes("kind", "mean", 1), fault.Invalid, `column "kind" has the limit mean`},
		{changes("items", "psi", 1), fault.Invalid, `column "items" has the limit psi`},
	} {
		_, err := l.check("main", c.limit)
		require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, c.text)
	}
}

// A column that the base lacks has no change. Its bounds are checked.
//
// spec: stats-85
func TestNewColumnsAreNotCompared(t *testing.T) {
	l := newLimited(t)
	old := arrow.NewSchema(limitedSchema().Fields()[:2], nil)
	l.base = strconv.FormatInt(l.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Buckets: 1}, old, `[{"id": 1, "day": "2026-10-01"}]`).Snapshot, 10)
	write := dataset.TableWrite{Table: stagetest.History, Branch: "candidate", Evolve: true}
	l.Stage(t, write, arrow.NewSchema(limitedSchema().Fields()[:3], nil), `[{"id": 2, "day": "2026-10-02", "price": 4}]`)
	price := changes("price", "mean", 0)
	price.Bounds = []dataset.Limit{{Measure: "max", Value: 3}}
	got, err := l.check("candidate", price, changes("id", "nulls", 1))
	require.NoError(t, err)
	require.Equal(t, []string{"price max"}, places(got))
	require.Equal(t, []string{"price"}, got.NotCompared)
}
