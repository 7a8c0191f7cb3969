package commits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// created creates the table Events with one snapshot, whose summary says that it created the table.
func created(t *testing.T, c *icebergtest.Changing, summary map[string]string) commit.Committed {
	t.Helper()
	require.NoError(t, c.Tables.Create(t.Context(), newEvents(2)))
	made, err := c.Tables.Commit(t.Context(), commit.Change{
		Table: icebergtest.Events, Token: icebergtest.Token("first"), Add: []commit.DataFile{c.File("a", 1)}, Summary: summary,
	})
	require.NoError(t, err)
	return made
}

var createdSummary = map[string]string{commit.SummaryCreated: "true"}

// A table that Penstock created, and that no other program has changed, is dropped, and its data files
// stay. Another table of the same name can be created then.
//
// spec: write-70
func TestNewTablesAreDropped(t *testing.T) {
	icebergtest.EachChanging(t, func(t *testing.T, c *icebergtest.Changing) {
		c.Create(t, "ml.other", icebergtest.IDSchema()) // makes the namespace
		made := created(t, c, createdSummary)
		tbl := c.Load(t, icebergtest.Events)
		_, err := c.Tables.DropNew(t.Context(), icebergtest.Events, made.Snapshot+1)
		icebergtest.IsKind(t, err, fault.Conflict, "cannot be dropped")
		folder, err := c.Tables.DropNew(t.Context(), icebergtest.Events, made.Snapshot)
		require.NoError(t, err)
		require.Equal(t, tbl.Location(), folder)
		_, err = c.Tables.State(t.Context(), icebergtest.Events, "")
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		_, err = c.Tables.DropNew(t.Context(), icebergtest.Events, made.Snapshot)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		_, err = c.Tables.State(t.Context(), "ml.other", "")
		require.NoError(t, err)
		if c.Server == nil {
			_, err := store.Local{}.Open(t.Context(), tbl.MetadataLocation(), store.SizeUnknown)
			require.ErrorContains(t, err, "is missing")
			for entry := range tbl.Metadata().PreviousFiles() {
				_, err := store.Local{}.Open(t.Context(), entry.MetadataFile, store.SizeUnknown)
				require.ErrorContains(t, err, "is missing")
			}
		}
		again := created(t, c, createdSummary)
		require.NotEqual(t, made.Snapshot, again.Snapshot)
	})
}

// A table that another program created, that others have committed to, or that has other branches or
// tags, is not dropped.
//
// spec: write-70
func TestTablesOfOthersAreNotDropped(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, c *icebergtest.Changing) int64{
		"created by others": func(t *testing.T, c *icebergtest.Changing) int64 { t.Helper(); return created(t, c, nil).Snapshot },
		"a later commit": func(t *testing.T, c *icebergtest.Changing) int64 {
			t.Helper()
			made := created(t, c, createdSummary)
			c.Append(t, "later", "b")
			return made.Snapshot
		},
		"a branch": func(t *testing.T, c *icebergtest.Changing) int64 {
			t.Helper()
			made := created(t, c, createdSummary)
			require.NoError(t, c.Tables.Move(t.Context(), commit.Move{Table: icebergtest.Events, Ref: "audit", To: made.Snapshot}))
			return made.Snapshot
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := icebergtest.NewWriter(t).Changes(t)
			c.Create(t, "ml.other", icebergtest.IDSchema())
			snapshot := change(t, c)
			_, err := c.Tables.DropNew(t.Context(), icebergtest.Events, snapshot)
			icebergtest.IsKind(t, err, fault.Conflict, "table ml.events cannot be dropped: ")
			require.Contains(t, c.Files(t, ""), "a")
		})
	}
	c := icebergtest.NewWriter(t).Changes(t)
	_, err := c.Tables.DropNew(t.Context(), "features.history", 1)
	icebergtest.IsKind(t, err, fault.Forbidden, "features.history")
}
