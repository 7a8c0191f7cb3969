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

// Bound is a query bound to a relation. It determines which rows count, and therefore which columns
// are read, before the files are known.
type Bound struct {
	Relation *resolve.Relation
	// Rows is the query's row selection in canonical form: Dataset is the digest of
	// everything that determines the rows, Pin covers every table, and the shuffle is
	// resolved.
	Rows dataset.Rows
	// Algorithm is the version of the rules by which the plan is made. Bind sets 1.
	Algorithm int
	pinned    bool // the query or its cursor names snapshots
	// Filter selects the training rows that count. It combines the dataset's filter with those
	// conditions of the query that name only training columns. A nil Filter keeps all rows.
	Filter *expr.Filter
	// PostJoin is the rest of the query's filter. It is bound to the schema of PostJoinColumns and
	// evaluated on the joined rows; nil keeps all rows. It does not prune files.
	PostJoin        *expr.Filter
	PostJoinColumns []resolve.Output
	Sample          *Sample // selects some of the training rows that pass Filter; nil keeps all of them
	// RequestKey lists the training columns that identify a request, if rows are
	// shuffled by request or batches consist of requests.
	RequestKey []catalog.Field
}

// Bind binds a query's rows to a relation, and types their filter and sample. The defaults of rows
// must be set. Errors in the query are Invalid.
func Bind(r *resolve.Relation, rows dataset.Rows) (*Bound, error) {
	b := &Bound{Relation: r, Rows: rows, Algorithm: dealtEachEpoch, pinned: !rows.Pin.IsZero()}
	b.Rows.Inline, b.Rows.Pin = nil, r.Pin()
	b.Rows.With = nil
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

// decides reports whether a staging entry affects which rows the plan has. It does if the entry
// drops or repeats rows, or if the query's filter names one of the entry's columns.
func (b *Bound) decides(entry int) bool {
	return b.Relation.Staging[entry].Counted(resolve.Asks(b.PostJoinColumns, entry))
}

// bindShuffle resolves the unit, the windows and the key of a shuffled order.
func (b *Bound) bindShuffle() error {
	given := b.Rows.ShuffleParts
	var err error
	b.Rows, err = b.Rows.Shuffling(len(b.Relation.Dataset.Key) > 0)
	if b.Relation.Distinct != nil && b.Rows.ShuffleParts > 0 {
		if given > 1 {
			return fault.InvalidField("shuffle_parts", "a dataset with distinct has one part: finding repeated rows requires reading all rows of a bucket").
				WithRemedy("leave shuffle_parts out")
		}
		b.Rows.ShuffleParts = 1
	}
	if err != nil || b.Rows.ShuffleWindow == 0 || !b.Rows.Shuffle.ByRequest() {
		return err
	}
	return b.bindRequests("shuffle", "use shuffle: rows")
}

// bindRequests finds the columns that identify requests. field is the field of the query that needs
// them. If the dataset has no such columns, the error suggests the alternative in without.
func (b *Bound) bindRequests(field, without string) error {
	b.RequestKey = nil
	for _, name := range b.Relation.Dataset.Key {
		f, ok := b.Relation.Training.Field(name)
		if !ok {
			return fault.InvalidField(field, "requests are identified by column %s, which table %s does not have", name, b.Relation.Training.Name)
		}
		if !bucket.Supported(f.Type) {
			return fault.InvalidField(field, "requests cannot be identified by column %s.%s of type %s", b.Relation.Training.Name, f.Name, f.Type).
				WithRemedy("choose another key for the dataset, or %s", without)
		}
		b.RequestKey = append(b.RequestKey, f)
	}
	if b.RequestKey == nil {
		return fault.InvalidField(field, "requests are identified by the dataset's key, and it has none").
			WithRemedy("give the dataset a key, such as key: [request_id], or %s", without)
	}
	return nil
}

// Columns lists columns by ascending field id, for the training table and for the table
// of each staging entry.
type Columns struct {
	Training []int
	Staging  [][]int
}

// ValueRanges returns the columns whose value ranges a plan can use: columns that filters name, key
// columns whose match is not narrowed by buckets, and times. If Files have fewer ranges, a plan
// reads more files but returns the same rows.
func (b *Bound) ValueRanges() Columns {
	var c Columns
	c.Training, c.Staging = b.Relation.ValueRanges()
	c.Training = union(c.Training, named(b.Relation.Training, b.Filter.Columns()))
	for i, s := range b.Relation.Staging {
		c.Staging[i] = union(c.Staging[i], named(s.Pinned, s.Rows.Columns()))
	}
	return c
}

// Needs reports for each staging entry whether streams of the outputs join it. Other entries are
// pinned, but not read.
func (b *Bound) Needs(outputs []resolve.Output) []bool {
	needs := make([]bool, len(b.Relation.Staging))
	all := slices.Concat(outputs, b.PostJoinColumns)
	for i, s := range b.Relation.Staging {
		needs[i] = s.Needed(resolve.Asks(all, i))
	}
	return needs
}

// Reads returns every column that a stream of the outputs reads for any purpose: to return the
// column, or to join, order, filter or sample by it, before or after the joins. The catalog must
// check all of these columns, since a file may store a column in a form that would be read
// incorrectly. A Source has the list of checked columns, and reading any other column fails
// (Source.Check).
func (b *Bound) Reads(outputs []resolve.Output) Columns {
	r := b.Relation
	c := Columns{Training: named(r.Training, slices.Concat(b.Filter.Columns(), b.Sample.Reads())), Staging: make([][]int, len(r.Staging))}
	for _, f := range b.RequestKey {
		c.Training = append(c.Training, f.ID)
	}
	if d := r.Distinct; d != nil {
		for _, f := range d.By {
			c.Training = append(c.Training, f.ID)
		}
		c.Training = append(c.Training, ordering(d.Order)...)
	}
	for i, needed := range b.Needs(outputs) {
		s := r.Staging[i]
		if !needed {
			continue
		}
		c.Staging[i] = named(s.Pinned, s.Rows.Columns())
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

// add adds the columns that one output needs.
func (c *Columns) add(o resolve.Output) {
	switch {
	case o.Matched:
	case o.OfTraining():
		c.Training = append(c.Training, o.Field.ID)
	default:
		c.Staging[o.Table] = append(c.Staging[o.Table], o.Field.ID)
	}
	for _, over := range o.Overlays {
		c.Staging[over.Table] = append(c.Staging[over.Table], over.Field.ID)
	}
}

// named returns the field ids of the named columns.
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

// union returns the distinct elements of a and b in ascending order.
func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Check returns an Internal error if planning did not have the catalog check a column. A scan calls
// Check for every column that it reads.
func (s Source) Check(column catalog.Field) error {
	if _, planned := slices.BinarySearch(s.Planned, column.ID); planned {
		return nil
	}
	return fault.New(fault.Internal, "column %s of table %s is read, but planning did not check whether its files can be read for it",
		column.Name, s.Table.Name)
}
