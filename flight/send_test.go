package flight

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
)

// logged returns the lines of a JSON log with a message.
func logged(t *testing.T, log []byte, message string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range bytes.Lines(log) {
		var of map[string]any
		require.NoError(t, json.Unmarshal(line, &of))
		if of["msg"] == message {
			lines = append(lines, of)
		}
	}
	return lines
}

// A stream that ends logs the match rate of each staging table. Of a join that matches few rows,
// the report has a warning and the log one line, unless the dataset has min_match, which may be 0.
//
// spec: join-97
func TestMatchRates(t *testing.T) {
	for name, c := range map[string]struct {
		key      string
		minMatch float64
		anyMatch bool
		query    string
		rate     float64
		warning  string
	}{
		"most match":    {key: "req", rate: float64(trainingRows-109) / trainingRows},
		"none match":    {key: "country", warning: "0 of 1009 training rows match (0%); penstock verify homefeed compares the keys of both tables"},
		"few rows":      {key: "country", query: `, "filter": "item < 99"`},
		"min_match":     {key: "req", minMatch: 1e-9, rate: float64(trainingRows-109) / trainingRows},
		"few allowed":   {key: "country", minMatch: 1e-9},
		"any allowed":   {key: "country", anyMatch: true},
		"enough to say": {key: "country", query: `, "filter": "item < 100"`, warning: "0 of 100 training rows match (0%); penstock verify homefeed compares the keys of both tables"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.datasets[0].Staging[0].Key = []dataset.KeyPair{{Training: "request_id", Staging: c.key}}
			w.datasets[0].Staging[0].MinMatch, w.datasets[0].Staging[0].AnyMatch = c.minMatch, c.anyMatch
			var log bytes.Buffer
			s := serve(t, Options{Loader: w.loader(), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			g := s.readAll(t, `{"dataset": "homefeed", "batch_rows": 100`+c.query+`}`)
			<-s.ended
			require.Equal(t, c.warning, g[0].report.Staging["history"].Warning)
			ends, warnings := logged(t, log.Bytes(), "stream ends"), logged(t, log.Bytes(), "few rows match a staging table")
			require.Len(t, ends, 1)
			require.Equal(t, map[string]any{"history": c.rate}, ends[0]["match_rate"])
			if c.warning == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Equal(t, "WARN", warnings[0]["level"])
			require.Equal(t, map[string]any{"history": c.warning}, warnings[0]["staging"])
		})
	}
}
