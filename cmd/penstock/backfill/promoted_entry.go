package backfill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// promotedEntry is the SQL query that reads the rows of a staging entry. The query numbers the rows
// of each key, and the join takes the row with number 1.
type promotedEntry struct {
	alias    string
	entry    dataset.Staging
	training *catalog.Table
	staging  *catalog.Table
	pairs    []sqlPair // the join conditions for the columns of the key, and for the aligned partition
	values   []string  // the expressions of the promoted staging columns; the Nth is column valueN of the query
	lenient  bool      // whether the dataset filters its training rows
	guarded  bool      // whether one of the values already contains the entry's checks
}

// sqlPair is an equality of the join condition: an expression of the training row and one of the
// staging row.
type sqlPair struct{ training, staging string }

// newPromotedEntry returns the query of an entry.
func newPromotedEntry(alias string, s dataset.Staging, training, staging *catalog.Table) (*promotedEntry, error) {
	e := &promotedEntry{alias: alias, entry: s, training: training, staging: staging}
	for _, k := range s.Key {
		ours, ok := columnOf(training, k.Training)
		theirs, found := columnOf(staging, k.Staging)
		if !ok || !found {
			return nil, fault.New(fault.Internal, "entry %s: key column %s of the training table or %s of the staging table does not exist", s.Name, k.Training, k.Staging)
		}
		e.pairs = append(e.pairs, sqlPair{"t." + ours, "s." + theirs})
	}
	if s.Align == nil {
		return e, nil
	}
	return e, e.align(*s.Align)
}

// refused returns the error for an entry whose promotion cannot be printed as SQL.
func (e *promotedEntry) refused(format string, args ...any) error {
	return fault.InvalidField("entries", "entry %s %s", e.entry.Name, fmt.Sprintf(format, args...)).
		WithRemedy("promote it without --print: promote writes the values that reading the dataset returns")
}

// check returns an error if the entry cannot be promoted, or if its promotion cannot be printed as
// Spark SQL.
func (e *promotedEntry) check() error {
	s := e.entry
	switch {
	case !s.Join.Fills():
		return fault.InvalidField("entries", "entry %s is %s join, which drops training rows or adds no columns", s.Name, s.Join.Article()).
			WithRemedy("promote left and overlay entries; keep this one in the dataset")
	case s.Duplicates.Multiply():
		return fault.InvalidField("entries", "entry %s repeats training rows: duplicates is %s", s.Name, s.Duplicates).
			WithRemedy("choose one row of each key: set duplicates to first or last")
	case !s.Filter.IsZero():
		return e.refused("has a filter, for which no Spark SQL is printed")
	case s.PointInTime != nil:
		return e.refused("has point_in_time, for which no Spark SQL is printed")
	case s.Custom != "":
		return e.refused("has a strategy of its own, %s", s.Custom)
	case s.Missing.Fail() && e.lenient:
		return e.refused("has missing: error, but the dataset has a filter: the SQL would also fail for training rows without a match that the filter drops")
	}
	return nil
}

// align adds the join condition for the aligned partition. It supports only partitions by the
// identity transform. A partition must be aligned with the partition of the same value, or of a
// date a fixed number of days before.
func (e *promotedEntry) align(a dataset.Align) error {
	ours, theirs := partitionedBy(e.training, a.Training), partitionedBy(e.staging, a.Staging)
	if ours == nil || theirs == nil {
		return e.refused("is aligned by partitions whose transform is not identity, for which no Spark SQL is printed")
	}
	pair := sqlPair{"t." + quoted(ours.Name), "s." + quoted(theirs.Name)}
	const day = 24 * time.Hour
	switch {
	case a.Rule.IsSame():
	case !a.Rule.IsLag():
		return e.refused("is aligned by %s, for which no Spark SQL is printed", a.Rule)
	case ours.Type.ID() == arrow.DATE32 && a.Lag.Months == 0 && a.Lag.Count == 0 && a.Lag.Time%day == 0:
		pair.training = fmt.Sprintf("date_sub(%s, %d)", pair.training, a.Lag.Time/day)
	default:
		return e.refused("is aligned with a lag that is not a whole number of days, for which no Spark SQL is printed")
	}
	e.pairs = append(e.pairs, pair)
	return nil
}

// partitionedBy returns the column with a name if every partition spec of the table has an identity
// transform of this column. Otherwise it returns nil.
func partitionedBy(t *catalog.Table, name string) *catalog.Field {
	at := slices.IndexFunc(t.Fields, func(f catalog.Field) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	for _, spec := range t.Specs {
		if !slices.ContainsFunc(spec, func(p catalog.PartitionField) bool {
			return p.Source == t.Fields[at].ID && p.Transform.Kind == catalog.Identity
		}) {
			return nil
		}
	}
	return &t.Fields[at]
}

// staged returns the name that a staging column has in the query. If the query does not have the
// column yet, staged adds it.
func (e *promotedEntry) staged(f catalog.Field) string {
	column := "s." + sqlColumn(e.staging, f)
	at := slices.Index(e.values, column)
	if at < 0 {
		at = len(e.values)
		e.values = append(e.values, column)
	}
	return fmt.Sprintf("%s.value%d", e.alias, at+1)
}

// overlay returns the expression of a training column whose values a staging column replaces in
// matched rows.
func (e *promotedEntry) overlay(f catalog.Field, value string) string {
	staged := e.staged(f)
	if !e.entry.Nulls.Replace() {
		return e.guard(fmt.Sprintf("coalesce(%s, %s)", staged, value))
	}
	return e.guard(fmt.Sprintf("if(%s.place IS NULL, %s, %s)", e.alias, value, staged))
}

// value returns the expression of a new column.
func (e *promotedEntry) value(o resolve.Output, of string) (string, error) {
	if o.Matched {
		return e.guard(e.alias + ".place IS NOT NULL"), nil
	}
	value := e.staged(o.Field)
	for _, shape := range o.Shapes {
		switch {
		case shape.As != nil:
			return "", e.refused("converts column %s, for which no Spark SQL is printed", o.Name)
		case shape.First > 0:
			value = fmt.Sprintf("slice(%s, 1, %d)", value, shape.First)
		case shape.Last > 0:
			value = fmt.Sprintf("slice(%s, greatest(size(%s) - %d, 1), %d)", value, value, shape.Last-1, shape.Last)
		}
	}
	if o.Default != nil && o.Default.IsValid(0) {
		literal, err := e.literal(o, of)
		if err != nil {
			return "", err
		}
		value = fmt.Sprintf("if(%s.place IS NULL, %s, %s)", e.alias, literal, value)
	}
	return e.guard(value), nil
}

// literal returns the default value of a column as a Spark SQL expression.
func (e *promotedEntry) literal(o resolve.Output, of string) (string, error) {
	switch o.Type().ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.DECIMAL128, arrow.DATE32, arrow.STRING:
		return fmt.Sprintf("CAST(%s AS %s)", sqlText(o.Default.ValueStr(0)), of), nil
	case arrow.FLOAT32, arrow.FLOAT64:
		return fmt.Sprintf("CAST(%s AS %s)", sqlText(strings.ReplaceAll(o.Default.ValueStr(0), "Inf", "Infinity")), of), nil
	default:
		return "", e.refused("has a default of type %s for column %s, for which no Spark SQL is printed", o.Type(), o.Name)
	}
}

// sqlText returns a text as a SQL literal on one line, with escaped line breaks.
func sqlText(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\0`).Replace(text)
	return "'" + text + "'"
}

// guard adds the entry's checks to an expression, so that the statement fails if reading the
// dataset would fail. Only the first expression of the entry gets the checks.
func (e *promotedEntry) guard(value string) string {
	if e.guarded {
		return value
	}
	e.guarded = true
	var checks []string
	fails := func(condition, message string) {
		checks = append(checks, fmt.Sprintf("WHEN %s THEN raise_error(%s)", condition, sqlText("entry "+e.entry.Name+" "+message)))
	}
	if e.entry.Duplicates.Fail() {
		fails(e.alias+".copies > 1", "has several rows of a key that a training row has")
	} else {
		fails(e.alias+".unordered > 1", "has rows of one key in files without a sequence number, whose order is unknown to Spark SQL")
	}
	if e.entry.Missing.Fail() {
		fails(e.alias+".place IS NULL", "has no row of a key that a training row has")
	}
	return "CASE " + strings.Join(checks, " ") + " ELSE " + value + " END"
}

// join writes the LEFT JOIN that joins the query of the entry to the training table.
func (e *promotedEntry) join(b *strings.Builder, in Target) {
	table := in.sqlTable(e.staging.Name)
	at := version(e.entry.Ref)
	var keys, selected, present, on []string
	for i, p := range e.pairs {
		keys = append(keys, p.staging)
		selected = append(selected, fmt.Sprintf("%s AS key%d", p.staging, i+1))
		present = append(present, p.staging+" IS NOT NULL")
		on = append(on, fmt.Sprintf("%s = %s.key%d", p.training, e.alias, i+1))
	}
	for i, v := range e.values {
		selected = append(selected, fmt.Sprintf("%s AS value%d", v, i+1))
	}
	partition := "PARTITION BY " + strings.Join(keys, ", ")
	order, files := strings.Join(keys, ", "), ""
	if e.entry.Duplicates.Choose() {
		order = e.order()
		selected = append(selected, fmt.Sprintf("count_if(f.sequence = 0) OVER (%s) AS unordered", partition))
		files = fmt.Sprintf("  JOIN (\n    SELECT data_file.file_path AS file, sequence_number AS sequence\n    FROM %s.entries%s\n    WHERE status < 2 AND data_file.content = 0\n  ) AS f ON s._file = f.file\n",
			table, at)
	} else {
		selected = append(selected, fmt.Sprintf("count(*) OVER (%s) AS copies", partition))
	}
	selected = append(selected, fmt.Sprintf("row_number() OVER (%s ORDER BY %s) AS place", partition, order))
	b.WriteString("LEFT JOIN (\n")
	comment(b, "  ", "Entry "+e.entry.Name+".")
	fmt.Fprintf(b, "  SELECT\n    %s\n  FROM %s%s AS s\n%s  WHERE %s\n) AS %s ON %s AND %s.place = 1\n", strings.Join(selected, ",\n    "), table, at, files,
		strings.Join(present, " AND "), e.alias, strings.Join(on, " AND "), e.alias)
}

// order returns the ORDER BY list by which the row that the entry chooses comes first among the
// rows of its key.
func (e *promotedEntry) order() string {
	last := e.entry.Duplicates.TakeLast()
	direction := func(descending bool) string {
		switch descending != last {
		case true:
			return " DESC"
		default:
			return " ASC"
		}
	}
	nulls := " NULLS LAST"
	if last {
		nulls = " NULLS FIRST"
	}
	var out []string
	for _, o := range e.entry.OrderBy {
		column, _ := columnOf(e.staging, o.Column)
		out = append(out, "s."+column+direction(o.Descending)+nulls)
	}
	for _, column := range []string{"f.sequence", "f.file", "s._pos"} {
		out = append(out, column+direction(false))
	}
	return strings.Join(out, ", ")
}

// version returns the clause that selects a ref of a table, or "" for the current snapshot.
func version(ref dataset.Ref) string {
	switch {
	case ref.Snapshot != 0:
		return " VERSION AS OF " + strconv.FormatInt(ref.Snapshot, 10)
	case ref.Name != "":
		return " VERSION AS OF " + sqlText(ref.Name)
	}
	return ""
}
