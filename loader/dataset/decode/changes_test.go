package decode

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the command line sends is what the server reads.
//
// spec: change-2
func TestBodiesOfChangesAreReadAsTheyAreWritten(t *testing.T) {
	compact := CompactCommand{Table: "a.b", Branch: "try", Partition: []string{"day=2026-11-01"}, Key: []string{"k"}, AnyOrder: true, MinFiles: 2, FileSize: 1 << 20, DryRun: true, Progress: true}
	restore := RestoreCommand{Table: "a.b", Snapshot: 7, Branch: "try", Partition: []string{"day=2026-11-01"}, Token: "t", DryRun: true, NoCheck: true, Progress: true}
	orphans := OrphansCommand{Tables: []string{"a.b", "a.c"}, OlderThan: OrphanAge(90 * time.Minute), Remove: true, Progress: true}
	text := func(command any) []byte {
		out, err := json.Marshal(command)
		require.NoError(t, err)
		return out
	}
	gotCompact, err := Compact(text(compact))
	require.NoError(t, err)
	require.Equal(t, compact, gotCompact)
	gotRestore, err := Restore(text(restore))
	require.NoError(t, err)
	require.Equal(t, restore, gotRestore)
	gotOrphans, err := Orphans(text(orphans))
	require.NoError(t, err)
	require.Equal(t, orphans, gotOrphans)
	promote := PromoteCommand{Dataset: "home", Entries: []string{"a", "b"}, Earlier: RestartPromotion, DryRun: true, Progress: true}
	gotPromote, err := Promote(text(promote))
	require.NoError(t, err)
	require.Equal(t, promote, gotPromote)
	demote := DemoteCommand{Table: "a.b", Columns: []string{"x"}, Progress: true}
	gotDemote, err := Demote(text(demote))
	require.NoError(t, err)
	require.Equal(t, demote, gotDemote)
	diff := DiffCommand{Table: "a.b", From: "none", To: "7", Key: []string{"k"}, Progress: true}
	gotDiff, err := Diff(text(diff))
	require.NoError(t, err)
	require.Equal(t, diff, gotDiff)
	gotOrphans, err = Orphans([]byte(`{"tables": ["a.b"]}`))
	require.NoError(t, err)
	require.Equal(t, OrphansCommand{Tables: []string{"a.b"}, OlderThan: defaultOrphanAge}, gotOrphans)
}

// spec: change-2
func TestMistakesInBodiesOfChanges(t *testing.T) {
	for body, want := range map[string]string{
		`{"tables": []}`:                           "name a table",
		`{"tables": ["a.b", "a.c", "a.b"]}`:        "table a.b is given twice",
		`{"tables": ["a.b"], "older_than": "59m"}`: "at least 1h",
		`{"tables": ["a.b"], "older_than": "-3d"}`: "at least 1h",
		`{"tables": ["a.b"], "older_then": "3d"}`:  "older_than",
		`{"tables": ["a.b"], "older_than": 7}`:     "older_than",
		`{"tables": ["history"]}`:                  "namespace.table",
		`{"remove": true}`:                         "tables",
	} {
		_, err := Orphans([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	for body, want := range map[string]string{
		`{"table": "a.b", "min_files": 1}`:    "min_files",
		`{"table": "a.b", "file_size": 1000}`: "file_size",
		`{"min_files": 3}`:                    "table",
	} {
		_, err := Compact([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	for body, want := range map[string]string{`{"dataset": "home"}`: "entries", `{"dataset": "home", "entries": ["a"], "earlier": "anew"}`: "earlier"} {
		_, err := Promote([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	for body, want := range map[string]string{`{"from": "x"}`: "table", `{"table": "a.b", "key": ["k"], "only_files": true}`: "no key is compared", `{"table": "a.b", "form": "x"}`: "from"} {
		_, err := Diff([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	for body, want := range map[string]string{`{"table": "a.b"}`: "snapshot", `{"table": "a.b", "snapshot": 0}`: "snapshot"} {
		_, err := Restore([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
}
