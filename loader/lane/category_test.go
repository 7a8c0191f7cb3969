package lane_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/lane"
)

// kinds returns batches of a column of texts, of which every second one has codes, in memory of its own.
func kinds(t *testing.T, batches, rows int) []arrow.RecordBatch {
	t.Helper()
	field := arrow.Field{Name: "kind", Type: arrow.BinaryTypes.String, Nullable: true}
	all := make([]arrow.RecordBatch, batches)
	for k := range all {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for i := range rows {
			if i%11 == 3 {
				b.AppendNull()
			} else {
				b.Append(fmt.Sprintf("a rather long kind %d", (i*7+k)%5))
			}
		}
		column := b.NewArray()
		if k%2 == 1 {
			g := batch.NewGatherer(memory.DefaultAllocator)
			coded, err := g.GatherCodes(field.Type, []batch.Segment{{Values: column, Rows: rows}})
			require.NoError(t, err)
			column = coded
		}
		form := batch.FormOf(arrow.NewSchema([]arrow.Field{field}, nil), []arrow.Array{column})
		all[k] = array.NewRecordBatch(form, []arrow.Array{column}, int64(rows))
	}
	return all
}

// kindReader returns a reader of one lane whose range has the batches, as texts or as a category.
func kindReader(of []arrow.RecordBatch, rows int64, dt arrow.DataType, b *budget.Budget, limit int64) *lane.Reader {
	all := int64(0)
	for _, one := range of {
		all += one.NumRows()
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: []lane.Lane{{Ranges: []int64{all}}}, Rows: rows, Steps: lane.Unknown,
		Memory: &batch.Pool{}, Budget: b, MaxBytes: limit, SizedBy: lane.SizedBy{Field: "batch_rows", Batches: 1},
		Open: func(context.Context, int, lane.Position) (lane.Sequence, error) {
			next := 0
			return lane.AsStored(batch.FromFunc(of[0].Schema(), func() (arrow.RecordBatch, error) {
				if next == len(of) {
					return nil, nil
				}
				next++
				of[next-1].Retain()
				return of[next-1], nil
			}, func() {})), nil
		},
		Layout: lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "kind", Type: dt, Nullable: true}}, nil), Columns: []lane.Column{{Index: 0, Field: lane.Plain}}},
	})
}

// TestCategoriesAreReserved: a batch keeps reserved what its dictionary and codes take, and what they could have
// taken, and their making takes, only until it is made.
//
// spec: wire-9, wire-49
func TestCategoriesAreReserved(t *testing.T) {
	t.Parallel()
	coded := batch.Coded(arrow.BinaryTypes.String)
	of := kinds(t, 6, 1000)
	g := batch.NewGatherer(&batch.Pool{})
	for _, rows := range []int64{70, 1000, 4000} {
		b := budget.New(1 << 30)
		r := kindReader(of, rows, coded, b, 0)
		for r.Next() {
			one := r.RecordBatch()
			require.NoError(t, scenario.CheckCategories(one))
			require.Equal(t, g.AllocatedCodes(one.Column(0)), one.(*batch.Charged).Bytes())
			require.Equal(t, 5, one.Column(0).(*array.Dictionary).Dictionary().Len())
		}
		require.NoError(t, r.Err())
		require.Greater(t, b.Peak(), 96*rows, "while it is made")
		r.Release()
		require.Zero(t, b.Used())
	}

	// What is needed only to make a batch is not part of its size, but needs room.
	texts := kindReader(of, 4000, arrow.BinaryTypes.String, budget.New(1<<30), 0)
	require.True(t, texts.Next())
	most := batch.ArraySize(texts.RecordBatch().Columns()...) + 4*4000 + 4096
	texts.Release()
	r := kindReader(of, 4000, coded, budget.New(1<<30), most)
	require.True(t, r.Next(), "%v", r.Err())
	r.Release()
	small := budget.New(most + 50*4000)
	r = kindReader(of, 4000, coded, small, 0)
	require.False(t, r.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(r.Err()))
	r.Release()
	require.Zero(t, small.Used())
}

// TestViewsChangeTheFormOfTexts has views of texts and of categories, whole ones and slices, as texts and as
// categories: each has the values and the dictionary that its rows alone would have, and is reserved.
//
// spec: wire-39, wire-49
func TestViewsChangeTheFormOfTexts(t *testing.T) {
	t.Parallel()
	of := kinds(t, 2, 500)
	types := []arrow.DataType{arrow.BinaryTypes.String, batch.Coded(arrow.BinaryTypes.String)}
	for _, from := range types {
		b := budget.New(1 << 30)
		r := kindReader(of, 1000, from, b, 0)
		require.True(t, r.Next())
		base := r.RecordBatch()
		for _, to := range types {
			for _, rows := range [][2]int64{{0, 1000}, {0, 30}, {500, 1000}, {3, 4}} {
				view, err := lane.View(t.Context(), base, lane.ViewOptions{
					Schema: arrow.NewSchema([]arrow.Field{{Name: "kind", Type: to, Nullable: true}}, nil),
					From:   rows[0], To: rows[1], Memory: &batch.Pool{}, Budget: b,
				})
				require.NoError(t, err)
				require.NoError(t, scenario.CheckCategories(view))
				require.Equal(t, scenario.Values(base)[rows[0]:rows[1]], scenario.Values(view))
				own := view.(*batch.Charged).Bytes() - base.(*batch.Charged).Bytes()
				require.Equal(t, b.Used(), base.(*batch.Charged).Bytes()+own)
				shared := arrow.TypeEqual(from, to) && (rows[1]-rows[0] == 1000 || from.ID() == arrow.STRING)
				require.Equal(t, shared, own == 0)
				if !shared && to.ID() == arrow.DICTIONARY {
					require.Equal(t, batch.NewGatherer(&batch.Pool{}).AllocatedCodes(view.Column(0)), own)
				}
				view.Release()
			}
		}
		_, err := lane.View(t.Context(), base, lane.ViewOptions{
			Schema: arrow.NewSchema([]arrow.Field{{Name: "kind", Type: arrow.BinaryTypes.Binary}}, nil), To: 5, Memory: &batch.Pool{}, Budget: b,
		})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		r.Release()
		require.Zero(t, b.Used())
	}
}
