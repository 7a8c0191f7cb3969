package decode_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; review the diff")

// TestAllFaultsAreReportedTogether checks the messages for config files, queries and cursors
// with many faults.
func TestAllFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	for name, decode := range map[string]func([]byte) error{
		"bad.yaml": func(text []byte) error {
			datasets := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "datasets"}, document(t, string(text)).Content[0]}}
			_, faults := decode.File(datasets, nil)
			for i, f := range faults {
				faults[i].Field = strings.TrimPrefix(strings.TrimPrefix(f.Field, "datasets"), ".")
			}
			return fault.Fields(faults)
		},
		"bad-file.yaml": func(text []byte) error {
			_, faults := decode.File(document(t, string(text)), []string{"listen", "drain"})
			return fault.Fields(faults)
		},
		"bad.json": func(text []byte) error {
			_, err := decode.Query(text)
			return err
		},
		"bad-cursor.json": func(text []byte) error {
			_, err := decode.Cursors(text)
			return err
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		err = decode(text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		var got strings.Builder
		for _, f := range fault.As(err).Faults {
			got.WriteString(f.String() + "\n")
		}
		golden := filepath.Join("testdata", name+".golden")
		if *rewrite {
			require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
			continue
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got.String(), name)
	}
}

func document(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var node yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &node))
	return &node
}
