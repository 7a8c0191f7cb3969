package decode_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// rounds is the number of random values for which each property is checked.
const rounds = 400

// TestQueriesRoundTrip checks that the canonical form of a query decodes to an equal query
// with the same canonical form.
func TestQueriesRoundTrip(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 1)
	inline, resumed, sampled := 0, 0, 0
	limited, global, splits, requests := 0, 0, 0, 0
	for range rounds {
		q := m.query()
		text := q.Canonical()
		back, err := decode.Query(text)
		require.NoError(t, err, string(text))
		require.Equal(t, q, back, string(text))
		require.Equal(t, string(text), string(back.Canonical()))
		if q.Inline != nil {
			inline++
			require.Equal(t, q.Inline.Digest(), back.Inline.Digest())
		}
		if len(q.Cursor) > 1 {
			resumed++
		}
		if q.Limit > 0 {
			limited++
		}
		if q.GlobalBatchRows > 0 {
			global++
		}
		if q.BatchRequests > 0 {
			requests++
		}
		if q.Endpoints.BySplits() {
			splits++
		}
		if q.Sample != nil {
			sampled++
			require.Equal(t, q.Sample.Canonical(), back.Sample.Canonical())
		}
	}
	for _, n := range []int{limited, global, splits, requests} {
		require.Greater(t, n, rounds/100)
	}
	require.Greater(t, sampled, rounds/10)
	require.Greater(t, inline, rounds/10)
	require.Greater(t, resumed, rounds/100)
}

// TestEveryFieldOfAQueryRoundTrips checks that each field of a query, including those of
// an inline dataset, is encoded and decoded. It finds fields by reflection, so a field
// that the encoder or decoder lacks fails by name.
func TestEveryFieldOfAQueryRoundTrips(t *testing.T) {
	t.Parallel()
	datasettest.EachField(t, func(t *testing.T, what string, q dataset.Query) {
		t.Helper()
		text := q.Canonical()
		back, err := decode.Query(text)
		require.NoError(t, err, "%s: %s", what, text)
		datasettest.Equal(t, q.Defaults(), back, what)
		require.Equal(t, string(text), string(back.Canonical()), what)
	})
}

// TestEveryFieldOfACursorRoundTrips checks that a cursor with all fields set is encoded
// and decoded.
//
// spec: cursor-3
func TestEveryFieldOfACursorRoundTrips(t *testing.T) {
	t.Parallel()
	c := datasettest.Cursor(t)
	back, err := decode.Cursor(c.JSON())
	require.NoError(t, err, string(c.JSON()))
	datasettest.Equal(t, c, back, "a cursor")
	require.Equal(t, string(c.JSON()), string(back.JSON()))
}

// spec: cursor-3
func TestCursorsRoundTrip(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 2)
	for range rounds {
		for _, c := range m.cursors() {
			text := c.JSON()
			back, err := decode.Cursor(text)
			require.NoError(t, err, string(text))
			require.Equal(t, c, back)
			require.Equal(t, string(text), string(back.JSON()))
			escaped, err := json.Marshal(c)
			require.NoError(t, err)
			again, err := decode.Cursor(escaped)
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
	}
}

func TestPinsRoundTrip(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 3)
	for range rounds {
		pin := m.pin()
		text, err := json.Marshal(pin)
		require.NoError(t, err)
		back, err := decode.Pin(text)
		require.NoError(t, err, string(text))
		require.Equal(t, pin, back)
	}
}

// TestYAMLAndJSONMeanTheSame decodes the same text as YAML and as JSON, since JSON is
// also valid YAML.
func TestYAMLAndJSONMeanTheSame(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 4)
	for range rounds / 4 {
		d := m.dataset()
		back, err := decode.Dataset("n", document(t, string(d.Canonical())))
		require.NoError(t, err, string(d.Canonical()))
		d.Name = "n"
		require.Equal(t, d, back, string(d.Canonical()))
	}
}
