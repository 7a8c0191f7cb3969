package scale_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/plan/scale"
)

// The example of docs/scale.md has the figures that the code gives for its facts, and the page describes all parameters and figures.
//
// spec: output-18
func TestExampleOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/scale.md")
	require.NoError(t, err)
	page := string(text)
	_, rest, found := strings.Cut(page, "<!-- facts of the example -->\n```text\n")
	require.True(t, found)
	block, rest, found := strings.Cut(rest, "\n```\n")
	require.True(t, found)
	var facts scale.Facts
	require.NoError(t, json.Unmarshal([]byte(block), &facts))
	load, err := scale.Parse(regexp.MustCompile(`--scale (trainers=64\S+traffic_price\S+)`).FindStringSubmatch(page)[1])
	require.NoError(t, err)
	sized, err := load.Of(facts)
	require.NoError(t, err)

	shown := map[string]string{}
	for line := range strings.Lines(sized.String()) {
		if words := strings.Fields(line); len(words) > 2 {
			shown[words[0]] = line
		}
	}
	_, table, _ := strings.Cut(rest, "<!-- figures of the example -->\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]* \\| ([^|]*) \\|$").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(rows), 15)
	for _, row := range rows {
		require.Contains(t, shown[row[1]], "  "+row[2]+"  ", row[1])
	}
	for _, name := range scale.Names() {
		require.Regexp(t, "(?m)^\\| [^|]*`"+name+"`", page, name)
	}
	for _, f := range sized.Figures {
		switch f.Name {
		case "step_rows", "epoch_rows", "epoch_seconds", "server_streams", "server_slots", "splits", "build_side", "cost_per_hour": // their line says all
		default:
			require.Regexp(t, "(?m)^\\| [^|]*`"+f.Name+"`", page, f.Name)
		}
	}
}
