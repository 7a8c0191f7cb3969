package scenario

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// readAgainst reads the case's query without its limit, and compares the result with the
// expectation. Since the oracle does not know the order of all rows, readAgainst then compares
// reads with each other: a limited read with the beginning of the whole read, and the concatenated
// endpoints of splits with one stream.
func (c *Case) readAgainst(want Expectation, l *loader.Loader) ([]Shard, Difference) {
	shards, err := c.Read(context.Background(), l)
	difference := c.Compare(want, shards, err)
	if difference != (Difference{}) || err != nil || c.stepped() {
		return shards, difference
	}
	whole := c.Query
	whole.Limit = 0
	if c.Query.Limit > 0 {
		want.Seen["limited"]++
		difference = limited(l, c.Query, shards[0])
	}
	if c.Query.BatchRequests > 0 {
		want.Seen["batches of requests"]++
		if c.Query.Wire.Grouped() {
			want.Seen["grouped"]++
		}
	}
	if c.Query.Endpoints.BySplits() {
		want.Seen["read by splits"]++
		difference = inOrder(l, whole, shards)
	}
	return shards, difference
}

// limited compares a limited stream with the whole stream: the rows, the batches, the cursors, and
// the rows after resuming.
func limited(l *loader.Loader, q dataset.Query, whole Shard) Difference {
	shards, err := Read(context.Background(), l, q)
	if err != nil {
		return Difference{"the read fails with a limit: " + cause(err), err.Error()}
	}
	got, all := shards[0], whole.rowsByName()
	given := min(int(q.Limit), len(all))
	if !slices.Equal(Texts(got.rowsByName()), Texts(all[:given])) {
		return Difference{"a limited stream does not return the first rows", fmt.Sprintf("got %d rows of %d, want %d", len(got.rowsByName()), len(all), given)}
	}
	for i := range got.Batches {
		last := i == len(got.Batches)-1
		if len(got.Batches[i]) != len(whole.Batches[i]) && !last {
			return Difference{"a limit moves a batch's end", fmt.Sprintf("batch %d has %d rows, want %d", i, len(got.Batches[i]), len(whole.Batches[i]))}
		}
	}
	rest := q
	rest.Limit, rest.Cursor = 0, dataset.Cursors{got.Report.Cursor}
	after, err := Read(context.Background(), l, rest)
	if err != nil {
		// The batches of the resumed stream have other rows, and may need more memory than the
		// batches of the whole stream.
		return Difference{"the read fails after a limit: " + cause(err), err.Error()}
	}
	left, want := Texts(after[0].rowsByName()), Texts(all[given:])
	if q.Defaults().Lanes > 1 && got.Report.Cursor.Uneven { // lanes keep their order, but interleave differently
		slices.Sort(left)
		slices.Sort(want)
	}
	if !slices.Equal(left, want) {
		return Difference{"other rows follow a limit", fmt.Sprintf("after %d rows: missing %v, surplus %v", given, Without(want, left), Without(left, want))}
	}
	return Difference{}
}

// inOrder compares the concatenated endpoints of splits with one stream of the same plan.
func inOrder(l *loader.Loader, q dataset.Query, endpoints []Shard) Difference {
	q.Endpoints = dataset.EndpointsShards
	shards, err := Read(context.Background(), l, q)
	if err != nil {
		return Difference{"the read fails as one stream: " + cause(err), err.Error()}
	}
	var rows [][]any
	for _, e := range endpoints {
		rows = append(rows, e.rowsByName()...)
	}
	if got, want := Texts(rows), Texts(shards[0].rowsByName()); !slices.Equal(got, want) {
		return Difference{"splits come in another order", fmt.Sprintf("missing %v, surplus %v", Without(want, got), Without(got, want))}
	}
	return Difference{}
}
