package decode_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// FuzzQuery checks that any text is either rejected with an Invalid error that has
// faults, or is a query whose canonical form decodes to an equal query.
func FuzzQuery(f *testing.F) {
	seed(f, "bad.json")
	f.Add([]byte(`{"dataset":"d","cursor":` + firstText + `,"shard":{"of":2,"index":0}}`))
	for _, small := range []string{
		`{"dataset":"d"}`, `{"dataset":"d","shard":{"index":1,"of":2},"lanes":4,"batch_rows":6}`,
		`{"dataset":{"training":{"table":"a.b","ref":"main"},"staging":[{"table":"c.d","key":{"a":"b"},"columns":[]}]}}`,
	} {
		f.Add([]byte(small))
	}
	m := maker{newRand(11)}
	for range 20 {
		f.Add(m.query().Canonical())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := decode.Query(text)
		if refused(t, err) {
			return
		}
		canonical := q.Canonical()
		again, err := decode.Query(canonical)
		require.NoError(t, err)
		require.Equal(t, q, again)
		require.Equal(t, string(canonical), string(again.Canonical()))
	})
}

// FuzzCursor checks the same for one or several cursors.
func FuzzCursor(f *testing.F) {
	seed(f, "bad-cursor.json")
	f.Add([]byte(firstText))
	m := maker{newRand(12)}
	for range 20 {
		f.Add(m.cursors()[0].JSON())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := decode.Cursors(text)
		if refused(t, err) {
			return
		}
		for _, c := range all {
			again, err := decode.Cursor(c.JSON())
			require.NoError(t, err)
			require.Equal(t, c, again)
			require.Equal(t, string(c.JSON()), string(again.JSON()))
			require.Empty(t, dataset.Differences(c, again))
		}
		merged, err := all.Merge()
		if !refused(t, err) {
			require.Len(t, merged.Given, len(all))
		}
	})
}

// FuzzDataset checks that any YAML is either rejected or is a dataset whose canonical
// form decodes to an equal dataset.
func FuzzDataset(f *testing.F) {
	seed(f, "bad.yaml")
	f.Add([]byte(homefeed))
	f.Add([]byte(everyRule))
	f.Add([]byte("training: {table: a.b}\nkey: &k [k]\nstaging: [&s {table: c.d, key: *k}, {<<: *s, name: e}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var node yaml.Node
		if yaml.Unmarshal(text, &node) != nil {
			return
		}
		d, err := decode.Dataset("d", &node)
		if refused(t, err) {
			return
		}
		q, err := decode.Query([]byte(`{"dataset":` + string(d.Canonical()) + `}`))
		require.NoError(t, err)
		q.Inline.Name = "d"
		require.Equal(t, d, *q.Inline)
	})
}

func seed(f *testing.F, name string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(f, err)
	f.Add(text)
}

// refused reports whether there is an error, which must be Invalid and have faults.
func refused(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.NotEmpty(t, fault.As(err).Faults)
	return true
}
