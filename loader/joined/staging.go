package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// stagingInput is a staging table as one stream uses it: the columns that the stream needs, the
// rule of the entry, and the table's file groups.
type stagingInput struct {
	table  int             // index in the plan
	bound  resolve.Staging // the entry bound to its table
	read   columns         // the key columns, then the shown columns, then the columns by which rows are ordered
	shown  []shown
	key    []int // indices of the training columns of the key in Layout.read
	rule   joiner.Rule
	spec   joiner.BuildSpec
	groups *buildside.Groups

	arrival *plan.Arrival // nil if the order in which rows were written is known or does not matter
}

// shown is a field of the input's dictionary.
type shown struct {
	column
	at       int         // index in stagingInput.read
	fallback arrow.Array // the value of rows without a match, of the column's type in the stream; nil: null
}

// newStagingInput returns nil for a staging table that the stream does not need, given the outputs
// of the stream and of the query's filter (resolve.Staging.Needed). If rows are only counted, a
// table is needed only if it changes the number of rows; a table that can only make the stream fail
// is omitted, since the error occurs when the stream is read after the count. newStagingInput adds
// the training columns that the input needs to the columns that the stream reads.
func newStagingInput(s *Ranges, table int, outputs []resolve.Output) (*stagingInput, error) {
	r, asked := s.plan.Relation.Staging[table], resolve.Asks(outputs, table)
	if needed := r.Needed(asked); !needed || s.spec.CountOnly && !r.Counted(asked) {
		return nil, nil //nolint:nilnil // the table is not read
	}
	if s.plan.Staging[table].Unread {
		return nil, fault.New(fault.Internal, "staging table %s is read, but planning did not list its files", r.Name)
	}
	in := &stagingInput{table: table, bound: r, rule: ruleOf(r), spec: joiner.BuildSpec{Name: r.Name, Strategy: r.Strategy}}
	for _, k := range r.Keys {
		in.read.add(column{field: k.Staging})
	}
	for _, o := range outputs {
		switch {
		case o.Table == table && o.Matched:
			in.spec.Matched = o.Name
		case o.Table == table:
			in.show(column{field: o.Field, shapes: o.Shapes}, o.Default)
		case o.Table == resolve.TrainingTable:
			in.overlay(s, o)
		}
	}
	in.rule.Unasked = !asked
	for _, c := range in.shown {
		in.spec.Defaults = append(in.spec.Defaults, c.fallback)
	}
	for _, o := range r.Order {
		in.spec.OrderBy = append(in.spec.OrderBy, joiner.Order{Column: in.read.add(column{field: o.Field}), Descending: o.Descending})
	}
	if r.Time != nil {
		at := in.read.add(column{field: r.Time.Staging})
		in.spec.Time = &at
		in.rule.Time = &joiner.TimeRule{Column: s.Layout.read.add(column{field: r.Time.Training}), Tolerance: r.Time.Tolerance, Exact: r.Time.Exact, UTC: r.Time.Zone.Known()}
	}
	for _, k := range r.Keys {
		in.key = append(in.key, s.Layout.read.add(column{field: k.Training}))
	}
	var err error
	if in.spec.Custom, err = s.joins.Custom(r.Staging, "strategy"); err != nil {
		return nil, fault.Op(err, "join %s", r.Name)
	}
	if in.arrival = s.plan.Arrival(table); in.arrival != nil {
		in.spec.Arrival = in.arrival
	}
	in.groups = s.joins.pool.Groups(buildside.Input{
		Name: r.Name, Plan: s.plan, Table: table, Spec: in.spec, Identity: in.identity(), Coded: in.coded(), Unkept: s.spec.Cache.Off(),
		Staging:  func(source plan.Source) joiner.Input { return in.rows(s.options, source) },
		Training: func(at plan.Range) joiner.Input { return in.training(s, at) },
	})
	return in, nil
}

// ruleOf returns the joiner's rule for an entry.
func ruleOf(r resolve.Staging) joiner.Rule {
	return joiner.Rule{Name: r.Name, Kind: r.Join, Missing: r.Missing, Duplicates: r.Duplicates, Nulls: r.Nulls}
}

// show returns the index of a column among the fields of the dictionary. It appends the column if
// it is new.
func (in *stagingInput) show(c column, fallback arrow.Array) int {
	i := in.field(c, fallback)
	if i < 0 {
		in.shown = append(in.shown, shown{column: c, at: in.read.add(c), fallback: fallback})
		i = len(in.shown) - 1
	}
	return i
}

func (in *stagingInput) field(c column, fallback arrow.Array) int {
	return slices.IndexFunc(in.shown, func(o shown) bool { return o.same(c) && o.fallback == fallback })
}

// overlay makes the input replace values of a training output, if the input overlays that output.
func (in *stagingInput) overlay(s *Ranges, o resolve.Output) {
	for _, over := range o.Overlays {
		if over.Table != in.table {
			continue
		}
		replaced := joiner.OverlayColumn{
			Training: s.Layout.place(o),
			Field:    in.show(column{field: over.Field, shapes: o.Shapes}, nil),
		}
		if !slices.Contains(in.rule.Overlays, replaced) {
			in.rule.Overlays = append(in.rule.Overlays, replaced)
		}
	}
}

// fields returns the shown columns as fields of the dictionary.
func (in *stagingInput) fields() []arrow.Field {
	fields := make([]arrow.Field, len(in.shown))
	for i, c := range in.shown {
		fields[i] = c.arrow()
	}
	return fields
}

// rows opens the staging rows of a source. The key columns come first, since newStagingInput added
// them first.
func (in *stagingInput) rows(o Options, source plan.Source) joiner.Input {
	staging := withFiles(func(ctx context.Context) (SourceRows, error) { return o.scan(ctx, source, in.read) })
	for i := range in.bound.Keys {
		staging.Key = append(staging.Key, i)
	}
	for _, c := range in.shown {
		staging.Columns = append(staging.Columns, c.at)
	}
	return staging
}

// coded returns the field ids of the columns that may be read as codes. These are the shown columns
// that are not keys, orders or times, since the joiner needs the values of such columns.
func (in *stagingInput) coded() []int {
	var only []int
	for _, c := range in.shown {
		looked := c.at < len(in.bound.Keys) || in.spec.Time != nil && *in.spec.Time == c.at ||
			slices.ContainsFunc(in.spec.OrderBy, func(o joiner.Order) bool { return o.Column == c.at })
		if !looked {
			only = append(only, c.at)
		}
	}
	return in.read.coded(only)
}

// training opens the columns of the training rows of a range by which staging rows are looked up:
// the keys and, if the rule uses it, the time.
func (in *stagingInput) training(s *Ranges, at plan.Range) joiner.Input {
	var read columns
	training := joiner.Input{Open: func(ctx context.Context) (array.RecordReader, error) { return s.training.between(ctx, at, read) }}
	for _, k := range in.bound.Keys {
		training.Key = append(training.Key, read.add(column{field: k.Training}))
	}
	if in.bound.Time != nil {
		training.Columns = []int{read.add(column{field: in.bound.Time.Training})}
	}
	return training
}
