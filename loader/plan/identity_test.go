package plan

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// spec: order-11, order-21
func TestAPlansIDCountsEveryField(t *testing.T) {
	t.Parallel()
	full := identity{
		Algorithm: Algorithm, Dataset: "d1d2", Filter: "a < 1", Sample: `{"rate":0.5}`,
		Pin: pinIdentity{
			Training: tableIdentity{Table: "u", Snapshot: 7, Schema: 1},
			Staging:  map[string]tableIdentity{"history": {Table: "v", Snapshot: 8, Schema: 2}},
		},
		Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: 3, Epoch: 4,
		Lanes:      [][]rangeIdentity{{{Split: "s", From: 1, To: 9, Groups: []int{2}}}},
		FileGroups: [][][]string{{{"file:///a"}}},
		Written:    []map[string]int64{{"file:///b": 1}},
	}
	digesttest.EveryFieldCounts(t, full)
	digesttest.EveryFieldCounts(t, sinceIdentity{Plan: full, Since: 5})
	digesttest.EveryFieldCounts(t, windowIdentity{Plan: full, Since: 5, Window: 6})
}

// TestSinceBelongsToAPlansID: two plans that read the same files are not the same if
// one reads them for another reason. Those of all rows keep the ids that they had.
//
// spec: since-8
func TestSinceBelongsToAPlansID(t *testing.T) {
	t.Parallel()
	p := &Plan{Bound: Bound{Relation: &resolve.Relation{}}}
	require.Equal(t, digest.Of(p.identity())[:idDigits], p.id())
	ids := map[string]bool{p.id(): true}
	for _, since := range []int64{1, 2} {
		p.Since = since
		require.False(t, ids[p.id()])
		ids[p.id()] = true
		require.Equal(t, since, p.Cursor().Since)
	}
}

// TestAPinsIdentityIsFull: each field of a table's pin counts.
func TestAPinsIdentityIsFull(t *testing.T) {
	t.Parallel()
	pin := dataset.TablePin{UUID: "u", Snapshot: 7, Schema: 1, Mapping: dataset.OwnNames}
	seen := map[tableIdentity]string{tableIdentityOf(pin): "nothing"}
	for field := range reflect.TypeFor[dataset.TablePin]().Fields() {
		other := pin
		reflect.ValueOf(&other).Elem().FieldByIndex(field.Index).SetZero()
		require.NotContains(t, seen, tableIdentityOf(other), field.Name)
		seen[tableIdentityOf(other)] = field.Name
	}
	both := identityOf(dataset.Pin{Training: pin, Staging: map[string]dataset.TablePin{"s": pin}})
	require.Equal(t, tableIdentity{Table: "u\x00names", Snapshot: 7, Schema: 1}, both.Training)
	require.Equal(t, map[string]tableIdentity{"s": both.Training}, both.Staging)
}

// TestAPlansIdentityIsFull: of a plan that has everything, no part of the
// identity is left out.
func TestAPlansIdentityIsFull(t *testing.T) {
	t.Parallel()
	late, early := catalog.File{Location: "a", Rank: 2, Rows: 5}, catalog.File{Location: "b", Rank: 1, Rows: 5}
	group := []int{0}
	p := &Plan{
		Bound:  Bound{Relation: &resolve.Relation{Distinct: &resolve.Distinct{}}, QueryFilter: "a < 1", SampleText: "{}", Algorithm: Algorithm, Shuffle: dataset.ShuffleSplits},
		Digest: "d1d2", Order: dataset.Shuffled, Seed: 3, Epoch: 4,
		Pin:     dataset.Pin{Training: dataset.TablePin{UUID: "u"}},
		Staging: []Staging{{Groups: []FileGroup{{Files: []catalog.File{{Location: "file:///a"}}}}}},
		Splits:  []Split{{ID: "s", Files: []FileRange{{File: late, To: 5}, {File: early, To: 5}}, Rows: 10, Groups: group}},
		Lanes:   []Lane{{Ranges: []Range{{From: 1, To: 9}}}},
	}
	got := p.identity()
	for field, value := range reflect.ValueOf(got).Fields() {
		require.False(t, value.IsZero(), field.Name)
	}
	require.Equal(t, [][]rangeIdentity{{{Split: "s", From: 1, To: 9, Groups: group}}}, got.Lanes)
	require.Equal(t, [][][]string{{{"file:///a"}}}, got.FileGroups)
	require.Equal(t, []map[string]int64{{"b": 0, "a": 1}}, got.Written)
}
