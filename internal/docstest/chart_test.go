package docstest

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// TestChartKnowsTheSettings: the schema of the chart's values has each setting of the server, and no other. The chart refuses exactly the
// settings that it writes itself.
func TestChartKnowsTheSettings(t *testing.T) {
	var schema struct {
		Properties struct {
			Settings struct {
				Properties map[string]any `json:"properties"`
			} `json:"settings"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "deploy/chart/values.schema.json")), &schema))
	var names []string
	for _, s := range config.Settings() {
		names = append(names, s.Name)
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(schema.Properties.Settings.Properties)))

	refused := regexp.MustCompile(`\$instead := dict (.*) -}}`).FindStringSubmatch(read(t, "deploy/chart/templates/_checks.tpl"))
	require.NotNil(t, refused)
	words := regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(refused[1], -1)
	require.NotEmpty(t, words)
	var elsewhere, written []string
	for i := 0; i < len(words); i += 2 {
		elsewhere = append(elsewhere, words[i][1])
	}
	for _, argument := range regexp.MustCompile(`- --([a-z-]+)[=\n]`).FindAllStringSubmatch(read(t, "deploy/chart/templates/_pod.tpl"), -1) {
		if name := argument[1]; name != "config" && name != "log-format" { // log_format may be set: the last of two flags counts
			written = append(written, strings.ReplaceAll(name, "-", "_"))
		}
	}
	require.ElementsMatch(t, written, elsewhere)
	require.Subset(t, names, written)
}
