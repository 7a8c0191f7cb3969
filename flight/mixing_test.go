package flight

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stream whose rows are permuted logs how well its batches are mixed, and what to raise if that is poor.
//
// spec: order-30
func TestStreamsLogHowTheyAreMixed(t *testing.T) {
	for name, c := range map[string]struct {
		query          string
		logged, better bool
	}{
		"stored": {query: ""},
		"splits": {query: `, "order": "shuffled", "shuffle": "splits"`},
		"mixed":  {query: `, "order": "shuffled", "batch_rows": 100`, logged: true},
		"poorly": {query: `, "order": "shuffled", "batch_rows": 100, "shuffle_window": 100, "shuffle_parts": 1`, logged: true, better: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var log bytes.Buffer
			s := serve(t, Options{Loader: w.loader(), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			s.readAll(t, `{"dataset": "homefeed"`+c.query+`}`)
			<-s.ended
			begins := logged(t, log.Bytes(), "stream begins")
			require.Len(t, begins, 1)
			mixing, known := begins[0]["mixing"].(float64)
			require.Equal(t, c.logged, known, begins[0])
			require.Equal(t, c.better, mixing > 2, begins[0])
			if c.better {
				require.Contains(t, begins[0]["mix_better"], "raise shuffle_parts")
			} else {
				require.NotContains(t, begins[0], "mix_better")
			}
		})
	}
}
