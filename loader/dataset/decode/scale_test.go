package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// spec: output-18
func TestScale(t *testing.T) {
	got, err := decode.Scale([]byte(`{"scale": "trainers=2", "query": {"dataset": "d", "batch_rows": 8}}`))
	require.NoError(t, err)
	require.Equal(t, "trainers=2", got.Scale)
	require.Equal(t, "d", got.Query.Dataset)
	require.Equal(t, 8, got.Query.BatchRows)
	require.Equal(t, 1, got.Query.Lanes, "a default")
	for body, says := range map[string]string{
		`{"scale": "trainers=2"}`:                              "query: missing",
		`{"query": {"dataset": "d"}}`:                          "scale: missing",
		`{"scale": "", "query": {"dataset": "d"}}`:             "scale: must not be empty",
		`{"scale": "a", "query": {"dataset": "d", "rows": 3}}`: "query.rows: unknown field",
		`{"scale": {"trainers": 2}, "query": {"dataset": ""}}`: "scale: must be",
	} {
		_, err := decode.Scale([]byte(body))
		require.Equal(t, fault.Invalid, fault.KindOf(err), body)
		require.ErrorContains(t, err, says, body)
	}
}
