package stage

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
)

// partitionBy is a partition field with the name of its column.
type partitionBy struct {
	column    string
	transform catalog.Transform
}

// String returns the field as users write it.
func (p partitionBy) String() string {
	switch p.transform.Kind {
	case catalog.Identity:
		return p.column
	case catalog.Bucket, catalog.Truncate:
		return fmt.Sprintf("%s[%d](%s)", p.transform.Kind, p.transform.N, p.column)
	case catalog.Year, catalog.Month, catalog.Day, catalog.Hour, catalog.Other:
	}
	return fmt.Sprintf("%s(%s)", p.transform.Kind, p.column)
}

// name returns the name of the field. It follows the convention of other writers of tables.
func (p partitionBy) name() string {
	switch p.transform.Kind {
	case catalog.Identity:
		return p.column
	case catalog.Truncate:
		return p.column + "_trunc"
	case catalog.Bucket, catalog.Year, catalog.Month, catalog.Day, catalog.Hour, catalog.Other:
	}
	return p.column + "_" + string(p.transform.Kind)
}

// partitionForm matches a transform, an optional width, and a column.
var partitionForm = regexp.MustCompile(`^(\w+)(?:\[(\d+)\])?\((.+)\)$`)

// parsePartition parses a field as users write it: a column, or a transform of a column.
func parsePartition(text string) (partitionBy, error) {
	parts := partitionForm.FindStringSubmatch(text)
	if parts == nil {
		return partitionBy{column: text, transform: catalog.Transform{Kind: catalog.Identity}}, nil
	}
	kind := catalog.TransformKind(parts[1])
	out := partitionBy{column: parts[3], transform: catalog.Transform{Kind: kind}}
	bad := func(format string, args ...any) (partitionBy, error) {
		return out, fault.InvalidField("partition", format, args...).
			WithRemedy("write a column, or year, month, day or hour of one, as in day(ts), or truncate[4](text)")
	}
	switch kind {
	case catalog.Identity, catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		if parts[2] != "" {
			return bad("%s of %q has no width", kind, text)
		}
	case catalog.Truncate:
		var err error
		if out.transform.N, err = strconv.Atoi(parts[2]); err != nil || out.transform.N < 1 {
			return bad("%q needs a width above 0, as in truncate[4](%s)", text, out.column)
		}
	case catalog.Bucket:
		return bad("%q is a number of buckets, which is given by itself", text)
	case catalog.Other:
		return bad("%q has an unknown transform", text)
	default:
		return bad("%q has an unknown transform %s", text, kind)
	}
	return out, nil
}

// likeTable is the table whose layout a new table copies.
type likeTable struct {
	name  string
	table *catalog.Table
	spec  catalog.Spec
}

// requestedLayout is the layout that a request names for its table.
type requestedLayout struct {
	request dataset.TableWrite
	route   func(table string) (WritableTables, string, error)
	taken   []string // the partition fields taken from the table in the request's Like
}

// like returns the table in the request's Like.
func (c *requestedLayout) like(ctx context.Context) (likeTable, error) {
	tables, name, err := c.route(c.request.Like)
	if err != nil {
		return likeTable{}, err
	}
	state, err := tables.State(ctx, name, commit.Main)
	if err != nil {
		return likeTable{}, fault.Op(err, "read the layout of table %s", c.request.Like)
	}
	return likeTable{name: c.request.Like, table: state.Table, spec: state.Table.Specs[state.Spec]}, nil
}

// bucket returns the key column that the new table is bucketed by, and the number of buckets.
func (l likeTable) bucket(key []string) (partitionBy, error) {
	var found []catalog.PartitionField
	for _, p := range l.spec {
		if p.Transform.Kind == catalog.Bucket {
			found = append(found, p)
		}
	}
	for _, p := range found {
		if f, ok := l.table.ByID(p.Source); ok && slices.Contains(key, f.Name) {
			return partitionBy{f.Name, p.Transform}, nil
		}
	}
	if len(found) == 1 && len(key) == 1 {
		return partitionBy{key[0], found[0].Transform}, nil
	}
	return partitionBy{}, fault.InvalidField("like", "table %s has no buckets of a column of the key %s", l.name, strings.Join(key, ", ")).
		WithRemedy("name the number of buckets")
}

// partition returns the coarse fields whose columns the new table has too, except for the column of
// the buckets.
func (l likeTable) partition(columns *catalog.Table, bucketed string) []partitionBy {
	var out []partitionBy
	for _, p := range l.spec {
		theirs, ok := l.table.ByID(p.Source)
		if !ok || !coarse(p) || theirs.Name == bucketed {
			continue
		}
		if ours, ok := columns.Field(theirs.Name); ok && datafile.SameShape(ours.Type, theirs.Type) {
			out = append(out, partitionBy{theirs.Name, p.Transform})
		}
	}
	return out
}

// fields returns the partition fields of a new table: those of the request, or else of the table in
// Like, followed by the buckets.
func (c *requestedLayout) fields(ctx context.Context, columns *catalog.Table) ([]partitionBy, error) {
	var out []partitionBy
	for _, text := range c.request.Partition {
		p, err := parsePartition(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o partitionBy) bool { return o.column == p.column }) {
			return nil, fault.InvalidField("partition", "two fields are of column %s", p.column).WithRemedy("partition by the finer one")
		}
		out = append(out, p)
	}
	buckets := partitionBy{c.request.Key[0], catalog.Transform{Kind: catalog.Bucket, N: c.request.Buckets}}
	if c.request.Like == "" && buckets.transform.N < 1 {
		return nil, fault.InvalidField("buckets", "%d is not a number of buckets", buckets.transform.N).WithRemedy("write a number above 0, best the training table's")
	}
	if c.request.Like != "" {
		like, err := c.like(ctx)
		if err == nil {
			err = like.equals(columns, c.request.Key)
		}
		if err != nil {
			return nil, err
		}
		if buckets, err = like.bucket(c.request.Key); err != nil {
			return nil, err
		}
		if len(out) == 0 {
			out = like.partition(columns, buckets.column)
			c.taken = texts(out)
		}
	}
	return append(out, buckets), nil
}

// texts returns fields as users write them.
func texts(fields []partitionBy) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.String())
	}
	return out
}

// partition adds a field to the partition spec of a new table.
func (p *planning) partition(by partitionBy) error {
	f, ok := p.state.Table.Field(by.column)
	if !ok {
		field := "partition"
		if by.transform.Kind == catalog.Bucket {
			field = "key"
		}
		return datafile.UnknownColumn(field, by.column, p.state.Table.Names())
	}
	name, transform := by.name(), string(by.transform.Kind)
	if by.transform.N > 0 {
		transform = fmt.Sprintf("%s[%d]", by.transform.Kind, by.transform.N)
	}
	for by.transform.Kind != catalog.Identity && slices.Contains(p.state.Table.Names(), name) {
		name += "_partition" // a field must not have the name of another column
	}
	p.table.Partition = append(p.table.Partition, commit.PartitionBy{Column: f.ID, Name: name, Transform: transform})
	p.state.Table.Specs[0] = append(p.state.Table.Specs[0], catalog.PartitionField{Source: f.ID, Name: name, Transform: by.transform})
	return nil
}
