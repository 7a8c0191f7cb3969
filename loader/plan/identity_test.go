package plan

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/resolve"
)

// spec: order-11, order-21
func TestPlanIDCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, identity{
		Algorithm: Algorithm, Rows: "r1r2", Lanes: [][]rangeIdentity{{{Split: "s", From: 1, To: 9}}},
		Written: []map[string]int64{{"file:///b": 1}},
	})
	digesttest.EveryFieldCounts(t, filesIdentity{
		Tables: tablesIdentity{Plan: "p1p2", Dataset: "d1d2", Rows: "r1r2"}, FileGroups: [][][]string{{{"file:///a"}}}, Groups: [][]int{{2}},
	})
}

// TestPlanIdentityIsFull checks that no field of the three identities is empty for a plan
// that has everything.
func TestPlanIdentityIsFull(t *testing.T) {
	t.Parallel()
	p := fullPlan()
	for _, got := range []any{identityOf(p), tablesOf(p), filesOf(p)} {
		for field, value := range reflect.ValueOf(got).Fields() {
			require.False(t, value.IsZero(), field.Name)
		}
	}
	require.Equal(t, [][]rangeIdentity{{{Split: "s", From: 1, To: 9}}}, identityOf(p).Lanes)
	require.Equal(t, []map[string]int64{{"b": 0, "a": 1}}, identityOf(p).Written)
	require.Equal(t, [][][]string{{{"file:///a"}}, {{"file:///c"}}}, filesOf(p).FileGroups)
	require.Equal(t, [][]int{{0, 0}}, filesOf(p).Groups)
	require.Equal(t, p.Rows, p.Cursor().Rows)
	require.Equal(t, p.ID, p.Cursor().Plan)
}

// TestLeftEntriesAreNotInThePlanID checks that the state of a left entry is only in
// TablesID and FilesID, its files only in FilesID, and what an entry that affects rows reads is in both ids.
//
// spec: order-11, cursor-28
func TestLeftEntriesAreNotInThePlanID(t *testing.T) {
	t.Parallel()
	for decider, change := range map[string]func(p *Plan){
		"left":  func(p *Plan) { p.Relation.Staging[0].Pinned.Pin.Snapshot++ },
		"inner": func(p *Plan) { p.Relation.Staging[1].Pinned.Pin.Snapshot++ },
	} {
		before, after := fullPlan(), fullPlan()
		change(after)
		after.Rows.Pin = after.Relation.Pin()
		before.setIDs()
		after.setIDs()
		require.Equal(t, decider == "left", before.ID == after.ID, decider)
		require.NotEqual(t, before.TablesID, after.TablesID, decider)
		require.NotEqual(t, before.FilesID, after.FilesID, decider)
	}
	before, after := fullPlan(), fullPlan()
	after.Staging[0].Groups[0].Files[0].Location = "file:///other"
	after.Splits[0].Groups = []int{1, 0}
	before.setIDs()
	after.setIDs()
	require.Equal(t, before.ID, after.ID)
	require.Equal(t, before.TablesID, after.TablesID)
	require.NotEqual(t, before.FilesID, after.FilesID)
}

// TestPlanIDFollowsRows checks that each field of a plan's rows changes its id. Plans
// that read the same files for different reasons differ.
//
// spec: order-11, since-8
func TestPlanIDFollowsRows(t *testing.T) {
	t.Parallel()
	full := fullPlan()
	full.Rows = datasettest.Cursor(t).Rows
	full.setIDs()
	for field := range reflect.TypeFor[dataset.Rows]().Fields() {
		other := fullPlan()
		other.Rows = datasettest.Cursor(t).Rows
		value := reflect.ValueOf(&other.Rows).Elem().FieldByIndex(field.Index)
		switch field.Name {
		case "Inline", "With":
			continue // a plan has the digest of its dataset
		case "Pin":
			other.Rows.Pin.Training.Snapshot++
		default:
			value.SetZero()
		}
		other.setIDs()
		require.NotEqual(t, full.ID, other.ID, field.Name)
		require.NotEqual(t, full.TablesID, other.TablesID, field.Name)
		require.NotEqual(t, full.FilesID, other.FilesID, field.Name)
	}
}

// fullPlan returns a plan of a left and an inner entry in which every field of its
// identities is set.
func fullPlan() *Plan {
	late, early := catalog.File{Location: "a", Rank: 2, Rows: 5}, catalog.File{Location: "b", Rank: 1, Rows: 5}
	staging := func(name string, join rule.Kind) resolve.Staging {
		return resolve.Staging{Staging: dataset.Staging{Name: name, Join: join}, Pinned: &catalog.Table{Pin: dataset.TablePin{UUID: name, Snapshot: 3}}}
	}
	relation := &resolve.Relation{
		Training: &catalog.Table{Pin: dataset.TablePin{UUID: "u", Snapshot: 7}}, Distinct: &resolve.Distinct{},
		Staging: []resolve.Staging{staging("s", rule.Left), staging("i", rule.Inner)},
	}
	p := &Plan{
		Bound:  Bound{Algorithm: 2, Relation: relation, Rows: dataset.Rows{Dataset: "d1", Order: dataset.Shuffled, Seed: 3, Pin: relation.Pin()}},
		Digest: "d1d2", ID: "p",
		Staging: []Staging{{Groups: []FileGroup{{Files: []catalog.File{{Location: "file:///a"}}}}}, {Groups: []FileGroup{{Files: []catalog.File{{Location: "file:///c"}}}}}},
		Splits:  []Split{{ID: "s", Files: []FileRange{{File: late, To: 5}, {File: early, To: 5}}, Rows: 10, Groups: []int{0, 0}}},
		Lanes:   []Lane{{Ranges: []Range{{From: 1, To: 9}}}},
	}
	return p
}
