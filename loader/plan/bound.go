package plan

import (
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Bound is a query bound to a relation: which rows count, and so which columns
// are read, before anybody knows the files.
type Bound struct {
	Relation *resolve.Relation
	// Rows is what the query asks for, in its canonical form: Dataset is the digest of
	// what decides rows, Pin has every table, and the shuffle is decided.
	Rows   dataset.Rows
	pinned bool // the query names snapshots, or its cursor does
	// Filter is which training rows count: the dataset's filter and those
	// conditions of the query's that name columns of the training table alone;
	// nil keeps all.
	Filter *expr.Filter
	// PostJoin is the rest of the query's filter, over the joined rows, bound to
	// the schema of PostJoinColumns; nil keeps all. It prunes nothing.
	PostJoin        *expr.Filter
	PostJoinColumns []resolve.Output
	Sample          *Sample // of the training rows that pass Filter; nil keeps all
	// RequestKey are the training columns whose values are one for the rows of a request,
	// where rows are permuted or given by request.
	RequestKey []catalog.Field
}

// Bind types the filter and the sample of a query's rows, with their defaults set. Faults
// of the query are Invalid.
func Bind(r *resolve.Relation, rows dataset.Rows) (*Bound, error) {
	b := &Bound{Relation: r, Rows: rows, pinned: !rows.Pin.IsZero()}
	b.Rows.Inline, b.Rows.Pin = nil, r.Pin()
	if err := b.divideFilter(rows.Filter); err != nil {
		return nil, err
	}
	if err := b.bindSample(rows.Sample); err != nil {
		return nil, err
	}
	if err := b.bindShuffle(); err != nil {
		return nil, err
	}
	b.Rows.Dataset = r.Dataset.RowsDigest(b.decides)
	if b.Rows.Requests {
		return b, b.bindRequests("batch_requests", "use batch_rows")
	}
	return b, nil
}

// decides reports whether a staging entry decides which rows there are: it drops or
// repeats rows, or the query's filter names one of its columns.
func (b *Bound) decides(entry int) bool {
	s := b.Relation.Staging[entry]
	return !s.Join.KeepsAll() || s.Duplicates.Multiply() || slices.ContainsFunc(b.PostJoinColumns, func(o resolve.Output) bool {
		return o.Table == entry || slices.ContainsFunc(o.Overlays, func(over resolve.Overlay) bool { return over.Table == entry })
	})
}

// bindShuffle decides what a shuffled order permutes, and by what.
func (b *Bound) bindShuffle() error {
	shuffle, window, err := b.Rows.Shuffling(len(b.Relation.Dataset.Key) > 0)
	b.Rows.Shuffle, b.Rows.ShuffleWindow = shuffle, window
	if err != nil || window == 0 || !shuffle.ByRequest() {
		return err
	}
	return b.bindRequests("shuffle", "use shuffle: rows")
}

// bindRequests finds the columns that tell requests apart, for a field of the query that
// needs them, or says what to do without.
func (b *Bound) bindRequests(field, without string) error {
	b.RequestKey = nil
	for _, name := range b.Relation.Dataset.Key {
		f, ok := b.Relation.Training.Field(name)
		if !ok {
			return fault.InvalidField(field, "requests are told apart by column %s, which table %s does not have", name, b.Relation.Training.Name)
		}
		if !bucket.Supported(f.Type) {
			return fault.InvalidField(field, "requests cannot be told apart by column %s.%s of type %s", b.Relation.Training.Name, f.Name, f.Type).
				WithRemedy("key the dataset otherwise, or %s", without)
		}
		b.RequestKey = append(b.RequestKey, f)
	}
	if b.RequestKey == nil {
		return fault.InvalidField(field, "requests are told apart by the dataset's key, and it has none").
			WithRemedy("give the dataset a key, such as key: [request_id], or %s", without)
	}
	return nil
}

// Columns are columns, by ascending field id: of the training table, and of
// the table of each staging entry.
type Columns struct {
	Training []int
	Staging  [][]int
}

// ValueRanges returns the columns of whose value ranges a plan makes use: those that
// filters name, those of keys where no bucket narrows the match, and times.
// Where Files carry fewer ranges a plan reads more, and gives the same rows.
func (b *Bound) ValueRanges() Columns {
	var c Columns
	c.Training, c.Staging = b.Relation.ValueRanges()
	c.Training = union(c.Training, named(b.Relation.Training, b.Filter.Columns()))
	for i, s := range b.Relation.Staging {
		c.Staging[i] = union(c.Staging[i], named(s.Pinned, s.Rows.Columns()))
	}
	return c
}

// Reads returns every column that a stream of some outputs reads, whatever
// for: to give it, to join or order by it, to filter or sample by it, before the
// joins or after them. The catalog must have looked at all of them, since a
// file may hold a column in a form that would be read wrongly; sources carry
// the list, and whoever reads another column fails (Source.Check).
func (b *Bound) Reads(outputs []resolve.Output) Columns {
	r := b.Relation
	c := b.ValueRanges()
	c.Training = union(c.Training, named(r.Training, b.Sample.Reads()))
	for _, f := range b.RequestKey {
		c.Training = append(c.Training, f.ID)
	}
	if d := r.Distinct; d != nil {
		for _, f := range d.By {
			c.Training = append(c.Training, f.ID)
		}
		c.Training = append(c.Training, ordering(d.Order)...)
	}
	for i, s := range r.Staging {
		for _, k := range s.Keys {
			c.Training, c.Staging[i] = append(c.Training, k.Training.ID), append(c.Staging[i], k.Staging.ID)
		}
		if s.Time != nil {
			c.Training, c.Staging[i] = append(c.Training, s.Time.Training.ID), append(c.Staging[i], s.Time.Staging.ID)
		}
		c.Staging[i] = append(c.Staging[i], ordering(s.Order)...)
	}
	for _, o := range slices.Concat(resolve.Leaves(outputs), b.PostJoinColumns) {
		c.add(o)
	}
	for _, f := range r.Request {
		c.Training = append(c.Training, f.ID)
	}
	c.Training = union(c.Training, nil)
	for i := range c.Staging {
		c.Staging[i] = union(c.Staging[i], nil)
	}
	return c
}

// add adds what is read for one output.
func (c *Columns) add(o resolve.Output) {
	switch {
	case o.Matched:
	case o.Table == resolve.TrainingTable:
		c.Training = append(c.Training, o.Field.ID)
	default:
		c.Staging[o.Table] = append(c.Staging[o.Table], o.Field.ID)
	}
	for _, over := range o.Overlays {
		c.Staging[over.Table] = append(c.Staging[over.Table], over.Field.ID)
	}
}

// named returns the field ids of the columns of some names.
func named(t *catalog.Table, names []string) []int {
	var ids []int
	for _, name := range names {
		if f, ok := t.Field(name); ok {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

func ordering(order []resolve.OrderKey) []int {
	ids := make([]int, len(order))
	for i, o := range order {
		ids[i] = o.Field.ID
	}
	return ids
}

// union returns the distinct members of both, ascending.
func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Check is Internal if planning did not ask the catalog about a column. A scan
// calls it for everything that it reads.
func (s Source) Check(column catalog.Field) error {
	if _, planned := slices.BinarySearch(s.Planned, column.ID); planned {
		return nil
	}
	return fault.New(fault.Internal, "column %s of table %s is read, and planning did not look whether its files hold it as the table has it",
		column.Name, s.Table.Name)
}
