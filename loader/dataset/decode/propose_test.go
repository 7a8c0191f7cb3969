package decode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// spec: backfill-14
func TestPropose(t *testing.T) {
	got, err := decode.Propose([]byte(`{"dataset":"d","table":"f.x","columns":["a:float"],"key":["id"],"buckets":4,"unaligned":true,"replaces":"a","from":"2026-11-01","to":"2026-11-02"}`))
	require.NoError(t, err)
	require.Equal(t, decode.ProposeCommand{
		Dataset: "d", Table: "f.x", Columns: []string{"a:float"}, Key: []string{"id"}, Buckets: 4, Unaligned: true, Replaces: "a", From: "2026-11-01", To: "2026-11-02",
	}, got)
	for body, says := range map[string]string{
		`{"dataset":"d","table":"f.x"}`:                                            "columns: missing",
		`{"dataset":"d","table":"f.x","columns":["a:int"],"from":"2026-13-01"}`:    `from: must be a day, as in 2026-11-01, not "2026-13-01"`,
		`{"dataset":"d","table":"f.x","columns":["a:int"],"to":"'; DROP TABLE"}`:   "to: must be a day",
		`{"dataset":"d","table":"f.x","columns":["a:int\n"]}`:                      "must not contain control characters",
		`{"dataset":"d","table":"f.x","columns":["a:int"],"buckets":0}`:            "buckets: must be at least 1",
		`{"dataset":"d","table":"f.x","columns":["a:int"],"spark_catalog":"lake"}`: "spark_catalog",
	} {
		_, err := decode.Propose([]byte(body))
		require.Equal(t, fault.Invalid, fault.KindOf(err), body)
		require.ErrorContains(t, err, says, body)
	}
}
