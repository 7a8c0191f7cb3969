package loader_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// readers counts the readers of training rows of a loader.
type readers struct {
	opened, begun, released int
}

// beginning is one of them.
type beginning struct {
	loader.Rows
	of    *readers
	asked bool
}

func (c *beginning) Begin() {
	if !c.asked {
		c.of.begun++
	}
}

func (c *beginning) Next() bool {
	c.asked = true
	return c.Rows.Next()
}

func (c *beginning) Release() {
	c.of.released++
	c.Rows.Release()
}

// TestTrainingRowsAreReadAhead: the rows of a lane's next range are let begin when the
// range before it has begun, are opened once, and are released whether they were needed
// or not.
func TestTrainingRowsAreReadAhead(t *testing.T) {
	t.Parallel()
	c := world(t)
	for _, order := range []dataset.Order{dataset.Stored, dataset.Shuffled} {
		for _, lanes := range []int{1, 3} {
			for _, stop := range []bool{false, true} {
				seen := &readers{}
				l := loader.New(loader.Options{
					Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World,
					Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
						rows, err := c.Scan(ctx, source, columns)
						if err != nil || source.Table.Name != c.Dataset.Training.Table {
							return rows, err
						}
						seen.opened++
						return &beginning{Rows: rows, of: seen}, nil
					},
				})
				q := one(lanes, 2*lanes)
				q.Order = order
				p, err := l.Plan(t.Context(), q)
				require.NoError(t, err)
				ranges := 0
				for _, lane := range p.Lanes {
					ranges += len(lane.Ranges)
				}
				require.Greater(t, ranges, lanes)
				reading := loader.ReadingOf(q)
				reading.Shard.Index = 0
				s, err := l.Open(t.Context(), p, reading)
				require.NoError(t, err)
				require.Zero(t, seen.opened, "nothing is opened before the first Next")
				for s.Next() && !stop { // its rows do not matter
				}
				require.NoError(t, s.Err())
				s.Release()
				require.Equal(t, seen.opened, seen.released)
				if !stop {
					require.Equal(t, ranges, seen.opened, "%s, %d lanes", order, lanes)
					require.Equal(t, ranges-lanes, seen.begun)
				} else {
					require.Positive(t, seen.begun)
				}
			}
		}
	}
}
