package promote_test

import (
	"fmt"
	"testing"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
)

// Rows without a sequence number stay the oldest ones: equality deletes apply to them, and distinct
// keeps the rows that it kept.
//
// spec: promote-4
func TestRowsWithoutSequenceNumbersKeepTheirAge(t *testing.T) {
	for _, version := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("format version 1, then %d", version), func(t *testing.T) {
			r := newRig(t)
			r.create(t, 1)
			if version > 1 {
				_, _, err := r.others.CommitTable(t.Context(), r.load(t).Identifier(), nil, []icetable.Update{icetable.NewUpgradeFormatVersionUpdate(version)})
				require.NoError(t, err)
				r.append(t, rowsTable, `{"row": 8, "key": 1}, {"row": 9, "key": 9}`)
				for i, f := range r.listed(t) {
					deleted{rig: r, of: f, name: fmt.Sprint("equal", i)}.equal(t, `[{"row": 3}, {"row": 4}]`)
				}
			}
			first := pair()
			first.Training.Distinct = &dataset.Distinct{By: []string{"key"}, Keep: dataset.KeepFirst}
			last := pair()
			last.Training.Distinct = &dataset.Distinct{By: []string{"key"}, Keep: dataset.KeepLast}
			want := [][]string{r.stream(t, pair(), dataset.Rows{Lanes: 1}), r.stream(t, first, dataset.Rows{Lanes: 1}), r.stream(t, last, dataset.Rows{Lanes: 1})}
			require.NotEqual(t, want[1], want[2])
			r.change(t, "history")
			r.change(t, "other")
			for i, d := range []dataset.Dataset{pair(), first, last} {
				require.Equal(t, want[i], r.stream(t, d, dataset.Rows{Lanes: 1}))
			}
			state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
			require.NoError(t, err)
			require.Equal(t, version, state.Version)
		})
	}
}

// A replacement of a file without a sequence number has the file's snapshot, so since returns the
// appended rows, once, before and after a promotion. The replacement of a file with a sequence number does not
// tell whether its rows are new.
//
// spec: since-6, promote-5
func TestSinceReturnsPromotedRowsWithoutSequenceNumbers(t *testing.T) {
	for _, version := range []int{1, 2, 3} {
		r := newRig(t)
		r.create(t, version)
		since := r.pinned(t).Pin.Snapshot
		r.append(t, rowsTable, `{"row": 8, "key": 1}, {"row": 9, "key": 9}`)
		query := dataset.Query{Rows: dataset.Rows{Since: since}}
		d := features3()
		before := r.ask(t, d, query)
		require.Len(t, before.Rows, 2)
		r.promoteAll(t, d, "left")
		got, err := r.tryAsk(t, d, query)
		if version == 1 {
			require.NoError(t, err)
			same(t, before, got, "appended and promoted")
		} else {
			require.Equal(t, fault.Invalid, fault.KindOf(err), err)
			require.ErrorContains(t, err, "removed files that were appended")
		}
		query.Since = r.pinned(t).Pin.Snapshot
		require.Empty(t, r.ask(t, d, query).Rows)
	}
}
