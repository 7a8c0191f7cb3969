package stage

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/datafile"
)

// agree checks that an existing table has the layout that the request asks for, and that its key
// columns can be compared with those of the table in the request's Like.
func (c *requestedLayout) agree(ctx context.Context, t *datafile.Target) error {
	table := t.State.Table
	has := fieldsOf(table, table.Specs[t.State.Spec])
	for _, text := range c.request.Partition {
		field, err := parsePartition(text)
		if err != nil {
			return err
		}
		if !slices.Contains(has, field) {
			return c.otherLayout("partition", "partitioned by", texts(has), field.String())
		}
	}
	if err := c.agreeOnBuckets(ctx, t, has); err != nil {
		return err
	}
	order := orderOf(table, table.SortOrders[t.State.SortOrder])
	if len(c.request.Sort) > 0 && !slices.Equal(order, c.request.Sort) {
		return c.otherLayout("sort", "sorted by", order, strings.Join(c.request.Sort, ", "))
	}
	return nil
}

// agreeOnBuckets checks that the table has the requested number of buckets. The request has this
// number itself, or names in Like a table that has it.
func (c *requestedLayout) agreeOnBuckets(ctx context.Context, t *datafile.Target, has []partitionBy) error {
	field, buckets := "buckets", c.request.Buckets
	if c.request.Like != "" {
		var key []string
		for _, at := range t.Layout.Key {
			key = append(key, t.Fitted.Field(at).Name)
		}
		like, err := c.like(ctx)
		if err == nil {
			err = like.equals(t.State.Table, key)
		}
		if err != nil {
			return err
		}
		if by, err := like.bucket(key); err == nil {
			field, buckets = "like", by.transform.N
		}
	}
	number := catalog.Transform{Kind: catalog.Bucket, N: buckets}
	if buckets == 0 || slices.ContainsFunc(has, func(p partitionBy) bool { return p.transform == number }) {
		return nil
	}
	return c.otherLayout(field, "partitioned by", texts(has), fault.Count(buckets, "bucket"))
}

// otherLayout returns the error for a request whose layout differs from the table's.
func (c *requestedLayout) otherLayout(field, how string, has []string, asked string) error {
	is := "not " + how + " any column"
	if len(has) > 0 {
		is = how + " " + strings.Join(has, ", ")
	}
	return fault.InvalidField(field, "table %s is %s, and the call names %s", c.request.Table, is, asked).In(c.request.Table, "").
		WithRemedy("leave it out, or stage to a new table")
}

// equals checks that the values of each key column can equal the values of the column with the same
// name in l. columns is the table that rows are staged to.
func (l likeTable) equals(columns *catalog.Table, key []string) error {
	for _, name := range key {
		ours, ok := columns.Field(name)
		theirs, joined := l.table.Field(name)
		if !ok || !joined || bucket.Comparable(theirs.Type, ours.Type) {
			continue
		}
		return fault.InvalidField("key", "column %s of the rows has type %s, and column %s of table %s has type %s: keys of these types cannot be equal",
			name, ours.Type, name, l.name, theirs.Type).WithRemedy("cast the column to %s", theirs.Type)
	}
	return nil
}

// fieldsOf returns the fields of a partition spec, with the names of their columns.
func fieldsOf(table *catalog.Table, spec catalog.Spec) []partitionBy {
	var out []partitionBy
	for _, p := range spec {
		if f, ok := table.ByID(p.Source); ok {
			out = append(out, partitionBy{f.Name, p.Transform})
		}
	}
	return out
}

// orderOf returns a sort order as requests write it.
func orderOf(table *catalog.Table, order catalog.SortOrder) []string {
	var out []string
	for _, s := range order {
		f, ok := table.ByID(s.Source)
		if !ok {
			continue
		}
		text := partitionBy{f.Name, s.Transform}.String()
		if s.Descending {
			text += descending
		}
		out = append(out, text)
	}
	return out
}
