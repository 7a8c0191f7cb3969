package commits_test

import (
	"context"
	"testing"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// spec: write-18, write-19, write-20
func TestBranchesArePublishedAndUndone(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a")
		uuid := c.Load(t, icebergtest.Events).Metadata().TableUUID().String()
		branch := commit.Move{Table: icebergtest.Events, UUID: uuid, Ref: "audit", To: base.Snapshot}
		require.NoError(t, c.Tables.Move(t.Context(), branch))
		require.NoError(t, c.Tables.Move(t.Context(), branch), "it is there already")
		staged, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "audit", Token: icebergtest.Token("staged"), Add: []commit.DataFile{c.File("b", 1)}})
		require.NoError(t, err)
		require.Equal(t, base.Snapshot, staged.Parent)
		require.Equal(t, []string{"a"}, c.Files(t, ""))
		require.Equal(t, []string{"a", "b"}, c.Files(t, "audit"))

		made, err := c.Tables.Publish(t.Context(), icebergtest.Events, "audit")
		require.NoError(t, err)
		require.Equal(t, commit.Move{Table: icebergtest.Events, UUID: uuid, Ref: "main", From: base.Snapshot, To: staged.Snapshot}, made)
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
		require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", From: staged.Snapshot}))
		_, err = c.Tables.Publish(t.Context(), icebergtest.Events, "audit")
		icebergtest.IsKind(t, err, fault.NotFound, `table ml.events has no branch or tag "audit"`)

		later := c.Append(t, "later", "c")
		err = c.Tables.Undo(t.Context(), made)
		icebergtest.IsKind(t, err, fault.Conflict, "branch main of table ml.events has later snapshots than "+icebergtest.Itoa(staged.Snapshot)+": "+icebergtest.Itoa(later.Snapshot))
		require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, UUID: uuid, Ref: "main", From: later.Parent, To: later.Snapshot}))
		require.NoError(t, c.Tables.Undo(t.Context(), made))
		require.NoError(t, c.Tables.Undo(t.Context(), made), "it is undone already")
		require.Equal(t, []string{"a"}, c.Files(t, ""))
		require.Equal(t, base.Snapshot, c.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID)

		// A branch that began before others committed to main is refused.
		require.NoError(t, c.Tables.Move(t.Context(), branch))
		_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "audit", Token: icebergtest.Token("late"), Add: []commit.DataFile{c.File("d", 1)}})
		require.NoError(t, err)
		other := c.Append(t, "other", "e")
		_, err = c.Tables.Publish(t.Context(), icebergtest.Events, "audit")
		icebergtest.IsKind(t, err, fault.Conflict, "main of table ml.events has snapshots that branch audit does not have: "+icebergtest.Itoa(other.Snapshot)+";")
		require.Equal(t, []string{"a", "e"}, c.Files(t, ""))
		require.Empty(t, c.Orphans(t))
	})
}

// A branch is created by the commit of its first change, or not at all.
//
// spec: write-56
func TestBranchesBeginWithAChange(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a")
		later := c.Append(t, "later", "b")
		change := commit.Change{Table: icebergtest.Events, Branch: "audit", Begin: base.Snapshot, Token: icebergtest.Token("staged"), Add: []commit.DataFile{c.File("x", 1)}}
		refused := change
		refused.Add = []commit.DataFile{c.File("x", 1)}
		refused.Add[0].Spec = 7
		_, err := c.Tables.Commit(t.Context(), refused)
		icebergtest.IsKind(t, err, fault.Conflict, "has partition spec 7")
		_, err = c.Tables.State(t.Context(), icebergtest.Events, "audit")
		icebergtest.IsKind(t, err, fault.NotFound, `no branch or tag "audit"`)

		made, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		require.Equal(t, base.Snapshot, made.Parent)
		require.True(t, made.Began)
		require.Equal(t, []string{"a", "x"}, c.Files(t, "audit"))
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
		again, err := c.Tables.Commit(t.Context(), change)
		require.NoError(t, err)
		require.True(t, again.Existed)
		require.False(t, again.Began)
		second := commit.Change{Table: icebergtest.Events, Branch: "audit", Begin: later.Snapshot, Token: icebergtest.Token("second"), Add: []commit.DataFile{c.File("y", 1)}}
		appended, err := c.Tables.Commit(t.Context(), second)
		require.NoError(t, err)
		require.Equal(t, made.Snapshot, appended.Parent, "the branch exists")
		require.False(t, appended.Began)

		second.Branch, second.Begin, second.Token = "other", 7, icebergtest.Token("third")
		_, err = c.Tables.Commit(t.Context(), second)
		icebergtest.IsKind(t, err, fault.Expired, "snapshot 7, at which it would begin, no longer does")
		require.Empty(t, c.Orphans(t))
	})
}

// spec: write-18
func TestBranchesMoveOnCondition(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first := c.Append(t, "first", "a")
		second := c.Append(t, "second", "b")
		c.SetRef(t, icebergtest.Events, "tag", first.Snapshot, icetable.TagRef)
		before := c.BytesOf(t)
		for _, of := range []struct {
			move commit.Move
			kind fault.Kind
			text string
		}{
			{commit.Move{Ref: "main", From: first.Snapshot, To: 7}, fault.Conflict, "branch main of table ml.events is at snapshot " + icebergtest.Itoa(second.Snapshot) + ", not at snapshot " + icebergtest.Itoa(first.Snapshot)},
			{commit.Move{Ref: "main", To: first.Snapshot}, fault.Conflict, "not at no snapshot"},
			{commit.Move{Ref: "main", From: second.Snapshot}, fault.Invalid, `branch "main" cannot be removed`},
			{commit.Move{Ref: "main", From: second.Snapshot, To: 7}, fault.NotFound, "table ml.events has no snapshot 7"},
			{commit.Move{Ref: "tag", From: first.Snapshot, To: second.Snapshot}, fault.Invalid, "tag is a tag of table ml.events"},
			{commit.Move{Ref: "b", From: first.Snapshot, To: second.Snapshot}, fault.Conflict, "branch b of table ml.events is at no snapshot"},
			{commit.Move{Ref: "b", To: first.Snapshot, UUID: "00000000-0000-0000-0000-000000000000"}, fault.Expired, "was dropped and created again"},
		} {
			of.move.Table = icebergtest.Events
			err := c.Tables.Move(t.Context(), of.move)
			icebergtest.IsKind(t, err, of.kind, of.text)
			require.False(t, commit.Uncertain(err))
		}
		_, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "tag", Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
		icebergtest.IsKind(t, err, fault.Invalid, "tag is a tag of table ml.events")
		_, err = c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "none", Token: icebergtest.Token("x"), Add: []commit.DataFile{c.File("x", 1)}})
		icebergtest.IsKind(t, err, fault.NotFound, `no branch or tag "none"`)
		require.Equal(t, before, c.BytesOf(t))
	})
}

// Only a move that can have been made is taken back.
//
// spec: write-57
func TestUndoFollowsParents(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		first := c.Append(t, "first", "a")
		second := c.Append(t, "second", "b")
		require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", To: first.Snapshot}))
		aside, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "audit", Token: icebergtest.Token("aside"), Add: []commit.DataFile{c.File("x", 1)}})
		require.NoError(t, err)
		before := c.BytesOf(t)
		for text, made := range map[string]commit.Move{
			"does not come from snapshot " + icebergtest.Itoa(aside.Snapshot):                                                                       {From: aside.Snapshot, To: second.Snapshot},
			"does not come from no snapshot: it has snapshot":                                                                                       {To: second.Snapshot},
			"snapshot " + icebergtest.Itoa(first.Snapshot) + " of table ml.events does not come from snapshot " + icebergtest.Itoa(second.Snapshot): {From: second.Snapshot, To: first.Snapshot},
		} {
			made.Table, made.Ref = icebergtest.Events, "main"
			icebergtest.IsKind(t, c.Tables.Undo(t.Context(), made), fault.Conflict, text)
		}
		require.Equal(t, before, c.BytesOf(t))
		third := c.Append(t, "third", "c")
		require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "main", From: first.Snapshot, To: third.Snapshot}))
		require.Equal(t, []string{"a"}, c.Files(t, ""))
		require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", To: aside.Snapshot}), "the branch did not exist")
		_, err = c.Tables.State(t.Context(), icebergtest.Events, "audit")
		icebergtest.IsKind(t, err, fault.NotFound, `no branch or tag "audit"`)
	})
}

// A table whose first snapshot is undone is empty, and takes changes again.
//
// spec: write-58
func TestFirstSnapshotsAreUndone(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) { undoFirst(t, c, "2") })
	t.Run("v1", func(t *testing.T) { undoFirst(t, icebergtest.NewWriter(t).Changes(t), "1") })
	t.Run("v3", func(t *testing.T) { undoFirst(t, icebergtest.NewWriter(t).Changes(t), "3") })
}

func undoFirst(t *testing.T, c *icebergtest.Changing, version string) {
	t.Helper()
	c.Bucketed(t, version)
	change := commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("first"), Add: []commit.DataFile{c.File("a", 1)}}
	first, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	made := commit.Move{Table: icebergtest.Events, Ref: "main", To: first.Snapshot}
	require.NoError(t, c.Tables.Undo(t.Context(), made))
	require.NoError(t, c.Tables.Undo(t.Context(), made), "it is undone already")
	require.Empty(t, c.Files(t, ""))
	tbl := c.Load(t, icebergtest.Events)
	require.Nil(t, tbl.CurrentSnapshot())
	require.NotNil(t, tbl.SnapshotByID(first.Snapshot))
	_, err = c.Tables.Commit(t.Context(), change)
	icebergtest.IsKind(t, err, fault.Conflict, "it was undone")
	second := c.Append(t, "second", "b")
	require.Zero(t, second.Parent)
	require.Equal(t, []string{"b"}, c.Files(t, ""))
	icebergtest.IsKind(t, c.Tables.Undo(t.Context(), made), fault.Conflict, "does not come from snapshot "+icebergtest.Itoa(first.Snapshot))
	require.NoError(t, c.Tables.Undo(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "main", To: second.Snapshot}))
	require.Empty(t, c.Files(t, ""))
}

// Main is moved only as it was checked: not if the check fails, and not if main or the branch moves during the check.
//
// spec: stats-92
func TestOnlyACheckedMoveIsPublished(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a")
		stage := func(name string) int64 {
			made, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "audit", Begin: base.Snapshot, Token: icebergtest.Token(name), Add: []commit.DataFile{c.File(name, 1)}})
			require.NoError(t, err)
			return made.Snapshot
		}
		first, second := stage("b"), stage("c")
		move := commit.Move{Table: icebergtest.Events, Ref: "main", From: base.Snapshot, To: second}
		publish := func(during func() error) error {
			_, err := c.Tables.PublishChecked(t.Context(), commit.Publication{Table: icebergtest.Events, Branch: "audit"}, func(_ context.Context, checked commit.Move) error {
				move.UUID = checked.UUID
				require.Equal(t, move, checked)
				return during()
			})
			return err
		}
		err := publish(func() error {
			return fault.New(fault.Invalid, "a limit is broken").In(icebergtest.Events, "").WithRemedy("correct it")
		})
		icebergtest.IsKind(t, err, fault.Invalid, "a limit is broken")
		require.Equal(t, []string{"a"}, c.Files(t, ""))
		const moved = "main or branch audit of table ml.events has moved while the rows of the branch were checked"
		err = publish(func() error {
			return c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, UUID: move.UUID, Ref: "main", From: base.Snapshot, To: first})
		})
		icebergtest.IsKind(t, err, fault.Conflict, moved)
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
		move.From = first
		last := int64(0)
		err = publish(func() error { last = stage("d"); return nil })
		icebergtest.IsKind(t, err, fault.Conflict, moved)
		require.Equal(t, []string{"a", "b"}, c.Files(t, ""))
		move.To = last
		require.NoError(t, publish(func() error { return nil }))
		require.Equal(t, []string{"a", "b", "c", "d"}, c.Files(t, ""))
		_, err = c.Tables.PublishChecked(t.Context(), commit.Publication{Table: icebergtest.Events, Branch: "audit"}, func(context.Context, commit.Move) error {
			return fault.New(fault.Internal, "nothing is to be checked")
		})
		require.NoError(t, err, "main is there already")
	})
}

// A publication of snapshots that the caller has seen is made once, and only if main and the branch are at them.
//
// spec: stage-192, stage-193
func TestOnlySeenSnapshotsArePublished(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Bucketed(t, "2")
		base := c.Append(t, "first", "a")
		stage := func(name string) int64 {
			made, err := c.Tables.Commit(t.Context(), commit.Change{Table: icebergtest.Events, Branch: "audit", Begin: base.Snapshot, Token: icebergtest.Token(name), Add: []commit.DataFile{c.File(name, 1)}})
			require.NoError(t, err)
			return made.Snapshot
		}
		publish := func(from, to int64) (commit.Move, error) {
			return c.Tables.PublishChecked(t.Context(), commit.Publication{Table: icebergtest.Events, Branch: "audit", From: from, To: to}, nil)
		}
		first := stage("b")
		second := stage("c")
		_, err := publish(base.Snapshot, first)
		icebergtest.IsKind(t, err, fault.Conflict, "table ml.events has moved: branch audit is at snapshot "+icebergtest.Itoa(second)+", not at snapshot "+icebergtest.Itoa(first)+";")
		_, err = publish(first, second)
		icebergtest.IsKind(t, err, fault.Conflict, "table ml.events has moved: main is at snapshot "+icebergtest.Itoa(base.Snapshot)+", not at snapshot "+icebergtest.Itoa(first)+";")
		_, err = publish(0, first)
		icebergtest.IsKind(t, err, fault.Conflict, ", not at no snapshot, and branch audit is at snapshot "+icebergtest.Itoa(second))
		require.Equal(t, []string{"a"}, c.Files(t, ""))

		want := commit.Publication{Table: icebergtest.Events, Branch: "audit", From: base.Snapshot, To: second}
		would, made, err := c.Tables.Publishing(t.Context(), want)
		require.NoError(t, err)
		require.False(t, made)
		require.Equal(t, []string{"a"}, c.Files(t, ""))
		for i := range 3 {
			move, err := c.Tables.PublishChecked(t.Context(), want, func(context.Context, commit.Move) error {
				require.Zero(t, i, "main is at the snapshot already")
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, would, move)
			if i == 1 { // a call that is repeated finds neither the snapshots nor the branch as it was
				require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", From: second}))
			}
		}
		_, made, err = c.Tables.Publishing(t.Context(), want)
		require.NoError(t, err)
		require.True(t, made)
		require.Equal(t, []string{"a", "b", "c"}, c.Files(t, ""))

		require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", To: second}))
		later := c.Append(t, "later", "d")
		_, err = publish(base.Snapshot, second)
		icebergtest.IsKind(t, err, fault.Conflict, "main is at snapshot "+icebergtest.Itoa(later.Snapshot)+", not at snapshot "+icebergtest.Itoa(base.Snapshot)+"; main has snapshot "+icebergtest.Itoa(second)+" already;")
		_, err = publish(second, later.Snapshot)
		require.NoError(t, err, "main is there")
		_, err = publish(later.Snapshot, second)
		icebergtest.IsKind(t, err, fault.Conflict, "main of table ml.events has snapshots that branch audit does not have")
		require.Equal(t, []string{"a", "b", "c", "d"}, c.Files(t, ""))
		require.Empty(t, c.Orphans(t))
	})
}
