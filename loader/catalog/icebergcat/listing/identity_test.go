package listing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/loader/catalog"
)

func TestManifestKeyCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, manifestOf{table: "9c12", location: "file:///m.avro", length: 7})
}

// TestOffends checks that snapshots are judged by their numbers of files. Manifest lists of
// old writers have no such numbers, and then nothing is assumed.
//
// spec: since-5
func TestOffends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operation      catalog.Operation
		added, removed int32
		want           string
	}{
		{catalog.OpAppend, 3, 0, ""},
		{catalog.OpAppend, 0, 0, ""},
		{catalog.OpAppend, -1, 0, "does not say how many files it added"},
		{catalog.OpOverwrite, 0, 3, ""},
		{catalog.OpOverwrite, 1, 3, "added files"},
		{catalog.OpOverwrite, -1, -1, "added files"},
		{catalog.OpDelete, 0, 3, ""},
		{catalog.OpDelete, 2, 3, "added files"},
		{catalog.OpReplace, 1, 3, ""},
		{catalog.OpReplace, 1, -1, ""},
		{catalog.OpReplace, 0, 0, ""},
		{catalog.OpReplace, 1, 0, "added files and replaced none"},
		{catalog.OpReplace, -1, 0, "added files and replaced none"},
		{"", 0, 0, "did what is not known"},
		{"upsert", 0, 0, "did what is not known"},
	} {
		one := &pastCommit{operation: c.operation, added: c.added, removed: c.removed}
		require.Equal(t, c.want, one.offends(), "%+v", c)
	}
	require.Equal(t, []int32{5, -1, -1, -1}, []int32{sum(2, 3), sum(-1, 3), sum(2, -1), sum(-1, -1)})
}
