package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

func TestFile(t *testing.T) {
	t.Parallel()
	file, faults := decode.File(document(t, `
catalogs:
  lake: {type: sql, uri: "sqlite:///a.db"}
  default: &sql {type: sql, uri: "sqlite:///b.db", warehouse: "file:///w", name: 007}
  other: {<<: *sql, uri: 10}
datasets:
  b: {training: {table: x.y}}
  a: {training: {table: x.z, ref: main, snapshot: null}}
server:
  drain: 10
  insecure: True
  listen: null
  advertise: [grpc://a:1, null, grpc://b:1]
`), []string{"listen", "drain", "insecure", "advertise"})
	require.Empty(t, faults)
	require.Equal(t, dataset.File{
		Catalogs: []dataset.Catalog{
			{Name: "lake", Type: "sql", URI: "sqlite:///a.db", Stored: "lake"},
			{Name: "default", Type: "sql", URI: "sqlite:///b.db", Warehouse: "file:///w", Stored: "007"},
			{Name: "other", Type: "sql", URI: "10", Warehouse: "file:///w", Stored: "007"},
		},
		Datasets: []dataset.Dataset{
			{Name: "b", Training: dataset.Training{Table: "x.y"}}, {Name: "a", Training: dataset.Training{Table: "x.z"}},
		},
		Server: []dataset.Setting{
			{Name: "drain", Values: []string{"10"}, Line: 10},
			{Name: "insecure", Values: []string{"True"}, Line: 11},
			{Name: "advertise", Values: []string{"grpc://a:1", "", "grpc://b:1"}, List: true, Line: 13},
		},
	}, file)
	for _, text := range []string{"{}", "catalogs: null", "datasets:\nserver:\n"} {
		file, faults = decode.File(document(t, text), nil)
		require.Empty(t, faults)
		require.Zero(t, file)
	}
	_, faults = decode.File(document(t, "datasets: [a, b]"), nil)
	require.Len(t, faults, 1)
	require.Equal(t, "datasets: must be a mapping from names to objects, not a list (line 1)", faults[0].String())
}

// TestFileReportsAllFaults checks that all faults of a config file are reported, and that
// the parts that could be read are returned with them.
func TestFileReportsAllFaults(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("server: {drain: 10s}\ncatalogs:\n")
	for i := range 200 {
		fmt.Fprintf(&text, "  c%d: {typ: sql}\n", i)
	}
	file, faults := decode.File(document(t, text.String()), []string{"drain"})
	require.Len(t, faults, 200)
	require.Equal(t, `catalogs.c199: it needs type and uri, such as {type: sql, uri: "sqlite:////path/to/catalog.db"} (line 202)`, faults[199].String())
	require.Len(t, file.Server, 1)
}
