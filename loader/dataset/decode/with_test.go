package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// TestEntriesOfAQueryAreThoseOfADataset checks that an added entry is decoded as one of a dataset is, except that its key may
// be that of the dataset.
//
// spec: resolve-92, resolve-95
func TestEntriesOfAQueryAreThoseOfADataset(t *testing.T) {
	t.Parallel()
	q, err := decode.Query([]byte(`{"dataset": "d", "with": [{"table": "features.a", "ref": "trial", "prefix": "a_"}]}`))
	require.NoError(t, err)
	require.Equal(t, []dataset.Staging{{
		Table: "features.a", Name: "a", Ref: dataset.Ref{Name: "trial"}, Prefix: "a_", MaxAmplification: dataset.DefaultMaxAmplification,
	}}, q.With)
	again, err := decode.Query(q.Canonical())
	require.NoError(t, err)
	require.Equal(t, q, again)
	for text, says := range map[string]string{
		`{"dataset": "d", "with": {"table": "features.a"}}`:                                      "with: must be a list",
		`{"dataset": "d", "with": [{"tabel": "features.a"}]}`:                                    `with[0].tabel: unknown field (did you mean "table"?)`,
		`{"dataset": "d", "with": [{"table": "features.a", "tag": "t"}]}`:                        `did you mean "ref"?`,
		`{"dataset": "d", "with": [{"table": "features.a"}, {"table": "other.a"}]}`:              `with[1].name: "a" is already the name of with[0]`,
		`{"dataset": "d", "with": [{"table": "features.request"}]}`:                              "is reserved",
		`{"dataset": {"training": {"table": "ml.t"}}, "with": [{"table": "features.a"}]}`:        "with: adds entries to a dataset of the server, and this one is inline; add them to its staging",
		`{"dataset": "d", "staging": [{"table": "features.a"}]}`:                                 `did you mean "with"?`,
		`{"dataset": "d", "with": [{"table": "features.a", "snapshot": 7, "ref": "trial"}]}`:     "with[0].snapshot: ref and snapshot cannot be combined",
		`{"dataset": "d", "with": [{"table": "features.a", "columns": ["b", {"column": "b"}]}]}`: `already has the name "b"`,
	} {
		_, err := decode.Query([]byte(text))
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, says, text)
	}
}
