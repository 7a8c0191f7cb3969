package icebergcat_test

import (
	"testing"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// spec: write-18, write-19, write-20
func TestBranchesArePublishedAndUndone(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		base := c.append(t, "first", "a")
		uuid := c.load(t, events).Metadata().TableUUID().String()
		branch := commit.Move{Table: events, UUID: uuid, Ref: "audit", To: base.Snapshot}
		require.NoError(t, c.tables.Move(t.Context(), branch))
		require.NoError(t, c.tables.Move(t.Context(), branch), "it is there already")
		staged, err := c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "audit", Token: token("staged"), Add: []commit.DataFile{c.file("b", 1)}})
		require.NoError(t, err)
		require.Equal(t, base.Snapshot, staged.Parent)
		require.Equal(t, []string{"a"}, c.files(t, ""))
		require.Equal(t, []string{"a", "b"}, c.files(t, "audit"))

		made, err := c.tables.Publish(t.Context(), events, "audit")
		require.NoError(t, err)
		require.Equal(t, commit.Move{Table: events, UUID: uuid, Ref: "main", From: base.Snapshot, To: staged.Snapshot}, made)
		require.Equal(t, []string{"a", "b"}, c.files(t, ""))
		require.NoError(t, c.tables.Move(t.Context(), commit.Move{Table: events, Ref: "audit", From: staged.Snapshot}))
		_, err = c.tables.Publish(t.Context(), events, "audit")
		isKind(t, err, fault.NotFound, `table ml.events has no branch or tag "audit"`)

		later := c.append(t, "later", "c")
		err = c.tables.Undo(t.Context(), made)
		isKind(t, err, fault.Conflict, "branch main of table ml.events has later snapshots than "+itoa(staged.Snapshot)+": "+itoa(later.Snapshot))
		require.NoError(t, c.tables.Undo(t.Context(), commit.Move{Table: events, UUID: uuid, Ref: "main", From: later.Parent, To: later.Snapshot}))
		require.NoError(t, c.tables.Undo(t.Context(), made))
		require.NoError(t, c.tables.Undo(t.Context(), made), "it is undone already")
		require.Equal(t, []string{"a"}, c.files(t, ""))
		require.Equal(t, base.Snapshot, c.load(t, events).CurrentSnapshot().SnapshotID)

		// A branch that began before others committed to main is refused.
		require.NoError(t, c.tables.Move(t.Context(), branch))
		_, err = c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "audit", Token: token("late"), Add: []commit.DataFile{c.file("d", 1)}})
		require.NoError(t, err)
		other := c.append(t, "other", "e")
		_, err = c.tables.Publish(t.Context(), events, "audit")
		isKind(t, err, fault.Conflict, "main of table ml.events has snapshots that branch audit does not have: "+itoa(other.Snapshot)+";")
		require.Equal(t, []string{"a", "e"}, c.files(t, ""))
		require.Empty(t, c.leftovers(t))
	})
}

// A branch is created by the commit of its first change, or not at all.
//
// spec: write-56
func TestBranchesBeginWithAChange(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		base := c.append(t, "first", "a")
		later := c.append(t, "later", "b")
		change := commit.Change{Table: events, Branch: "audit", Begin: base.Snapshot, Token: token("staged"), Add: []commit.DataFile{c.file("x", 1)}}
		refused := change
		refused.Add = []commit.DataFile{c.file("x", 1)}
		refused.Add[0].Spec = 7
		_, err := c.tables.Commit(t.Context(), refused)
		isKind(t, err, fault.Conflict, "has partition spec 7")
		_, err = c.tables.State(t.Context(), events, "audit")
		isKind(t, err, fault.NotFound, `no branch or tag "audit"`)

		made, err := c.tables.Commit(t.Context(), change)
		require.NoError(t, err)
		require.Equal(t, base.Snapshot, made.Parent)
		require.True(t, made.Began)
		require.Equal(t, []string{"a", "x"}, c.files(t, "audit"))
		require.Equal(t, []string{"a", "b"}, c.files(t, ""))
		again, err := c.tables.Commit(t.Context(), change)
		require.NoError(t, err)
		require.True(t, again.Existed)
		require.False(t, again.Began)
		second := commit.Change{Table: events, Branch: "audit", Begin: later.Snapshot, Token: token("second"), Add: []commit.DataFile{c.file("y", 1)}}
		appended, err := c.tables.Commit(t.Context(), second)
		require.NoError(t, err)
		require.Equal(t, made.Snapshot, appended.Parent, "the branch exists")
		require.False(t, appended.Began)

		second.Branch, second.Begin, second.Token = "other", 7, token("third")
		_, err = c.tables.Commit(t.Context(), second)
		isKind(t, err, fault.Expired, "snapshot 7, at which it would begin, no longer does")
		require.Empty(t, c.leftovers(t))
	})
}

// spec: write-18
func TestBranchesMoveOnCondition(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		first := c.append(t, "first", "a")
		second := c.append(t, "second", "b")
		c.setRef(t, events, "tag", first.Snapshot, icetable.TagRef)
		before := c.bytesOf(t)
		for _, of := range []struct {
			move commit.Move
			kind fault.Kind
			text string
		}{
			{commit.Move{Ref: "main", From: first.Snapshot, To: 7}, fault.Conflict, "branch main of table ml.events is at snapshot " + itoa(second.Snapshot) + ", not at snapshot " + itoa(first.Snapshot)},
			{commit.Move{Ref: "main", To: first.Snapshot}, fault.Conflict, "not at no snapshot"},
			{commit.Move{Ref: "main", From: second.Snapshot}, fault.Invalid, `branch "main" cannot be removed`},
			{commit.Move{Ref: "main", From: second.Snapshot, To: 7}, fault.NotFound, "table ml.events has no snapshot 7"},
			{commit.Move{Ref: "tag", From: first.Snapshot, To: second.Snapshot}, fault.Invalid, "tag is a tag of table ml.events"},
			{commit.Move{Ref: "b", From: first.Snapshot, To: second.Snapshot}, fault.Conflict, "branch b of table ml.events is at no snapshot"},
			{commit.Move{Ref: "b", To: first.Snapshot, UUID: "00000000-0000-0000-0000-000000000000"}, fault.Expired, "was dropped and created again"},
		} {
			of.move.Table = events
			err := c.tables.Move(t.Context(), of.move)
			isKind(t, err, of.kind, of.text)
			require.False(t, commit.Uncertain(err))
		}
		_, err := c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "tag", Token: token("x"), Add: []commit.DataFile{c.file("x", 1)}})
		isKind(t, err, fault.Invalid, "tag is a tag of table ml.events")
		_, err = c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "none", Token: token("x"), Add: []commit.DataFile{c.file("x", 1)}})
		isKind(t, err, fault.NotFound, `no branch or tag "none"`)
		require.Equal(t, before, c.bytesOf(t))
	})
}

// Only a move that can have been made is taken back.
//
// spec: write-57
func TestUndoFollowsParents(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) {
		c.bucketed(t, "2")
		first := c.append(t, "first", "a")
		second := c.append(t, "second", "b")
		require.NoError(t, c.tables.Move(t.Context(), commit.Move{Table: events, Ref: "audit", To: first.Snapshot}))
		aside, err := c.tables.Commit(t.Context(), commit.Change{Table: events, Branch: "audit", Token: token("aside"), Add: []commit.DataFile{c.file("x", 1)}})
		require.NoError(t, err)
		before := c.bytesOf(t)
		for text, made := range map[string]commit.Move{
			"does not come from snapshot " + itoa(aside.Snapshot):                                                           {From: aside.Snapshot, To: second.Snapshot},
			"does not come from no snapshot: it has snapshot":                                                               {To: second.Snapshot},
			"snapshot " + itoa(first.Snapshot) + " of table ml.events does not come from snapshot " + itoa(second.Snapshot): {From: second.Snapshot, To: first.Snapshot},
		} {
			made.Table, made.Ref = events, "main"
			isKind(t, c.tables.Undo(t.Context(), made), fault.Conflict, text)
		}
		require.Equal(t, before, c.bytesOf(t))
		third := c.append(t, "third", "c")
		require.NoError(t, c.tables.Undo(t.Context(), commit.Move{Table: events, Ref: "main", From: first.Snapshot, To: third.Snapshot}))
		require.Equal(t, []string{"a"}, c.files(t, ""))
		require.NoError(t, c.tables.Undo(t.Context(), commit.Move{Table: events, Ref: "audit", To: aside.Snapshot}), "the branch did not exist")
		_, err = c.tables.State(t.Context(), events, "audit")
		isKind(t, err, fault.NotFound, `no branch or tag "audit"`)
	})
}

// A table whose first snapshot is undone is empty, and takes changes again.
//
// spec: write-58
func TestFirstSnapshotsAreUndone(t *testing.T) {
	eachChanging(t, func(t *testing.T, c *changing) { undoFirst(t, c, "2") })
	t.Run("v1", func(t *testing.T) { undoFirst(t, newWriter(t).changes(t), "1") })
	t.Run("v3", func(t *testing.T) { undoFirst(t, newWriter(t).changes(t), "3") })
}

func undoFirst(t *testing.T, c *changing, version string) {
	t.Helper()
	c.bucketed(t, version)
	change := commit.Change{Table: events, Token: token("first"), Add: []commit.DataFile{c.file("a", 1)}}
	first, err := c.tables.Commit(t.Context(), change)
	require.NoError(t, err)
	made := commit.Move{Table: events, Ref: "main", To: first.Snapshot}
	require.NoError(t, c.tables.Undo(t.Context(), made))
	require.NoError(t, c.tables.Undo(t.Context(), made), "it is undone already")
	require.Empty(t, c.files(t, ""))
	tbl := c.load(t, events)
	require.Nil(t, tbl.CurrentSnapshot())
	require.NotNil(t, tbl.SnapshotByID(first.Snapshot))
	_, err = c.tables.Commit(t.Context(), change)
	isKind(t, err, fault.Conflict, "it was undone")
	second := c.append(t, "second", "b")
	require.Zero(t, second.Parent)
	require.Equal(t, []string{"b"}, c.files(t, ""))
	isKind(t, c.tables.Undo(t.Context(), made), fault.Conflict, "does not come from snapshot "+itoa(first.Snapshot))
	require.NoError(t, c.tables.Undo(t.Context(), commit.Move{Table: events, Ref: "main", To: second.Snapshot}))
	require.Empty(t, c.files(t, ""))
}
