package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// queries returns the queries of the chart's triggers, by name.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, one := range rendered(t, "ml", valuesOf(t, "cache")) {
		if one.GetKind() != "ScaledObject" {
			continue
		}
		triggers, _, err := unstructured.NestedSlice(one.Object, "spec", "triggers")
		require.NoError(t, err)
		for _, trigger := range triggers {
			fields, isMap := trigger.(map[string]any)
			require.True(t, isMap)
			name, _, _ := unstructured.NestedString(fields, "name")
			query, _, _ := unstructured.NestedString(fields, "metadata", "query")
			out[name] = query
		}
	}
	return out
}

// A series of the values that it has each minute, and an answer after a number of minutes; none is "".
type (
	series map[string]string
	answer struct {
		query string
		after string
		value float64
		none  bool
	}
)

// What KEDA reads: the number of servers that trainers need, and that of the memory budgets in use.
func TestQueriesOfScaling(t *testing.T) {
	const (
		release = `{job="loader-penstock",namespace="ml",`
		other   = `{job="loader-penstock",namespace="other",`
	)
	four := func(more series) series {
		for _, name := range []string{"a", "b", "c", "d"} {
			more["penstock_serving"+release+`instance="`+name+`"}`] = "1x200"
		}
		return more
	}
	trained, waited := "penstock_trainer_seconds_total"+release+`dataset="d",instance="a"}`, "penstock_trainer_waited_seconds_total"+release+`dataset="d",instance="a"}`
	cases := map[string]struct {
		input   series
		answers []answer
	}{
		"trainers that wait a tenth of their time, and an hour later": {
			four(series{trained: "0+60x200", waited: "0+6x30 180x170"}),
			[]answer{{query: "stall", after: "20m", value: 6}, {query: "stall", after: "60m", value: 4}, {query: "stall", after: "110m", value: 0}},
		},
		"trainers that wait a fiftieth of their time": {
			four(series{trained: "0+60x200", waited: "0+1.2x200"}), []answer{{query: "stall", after: "20m", value: 4}},
		},
		"the dataset that waits most decides": {
			four(series{
				trained: "0+60x200", waited: "0+0x200", "penstock_trainer_seconds_total" + release + `dataset="e",instance="b"}`: "0+6x200",
				"penstock_trainer_waited_seconds_total" + release + `dataset="e",instance="b"}`: "0+3x200",
			}),
			[]answer{{query: "stall", after: "20m", value: 6}},
		},
		"trainers that have ended": {
			four(series{trained: "0+60x30 1800x170", waited: "0+6x30 180x170"}), []answer{{query: "stall", after: "50m", value: 4}, {query: "stall", after: "110m", value: 0}},
		},
		"no trainers, and those of another release": {
			four(series{
				"penstock_trainer_seconds_total" + other + `dataset="d",instance="x"}`:        "0+60x200",
				"penstock_trainer_waited_seconds_total" + other + `dataset="d",instance="x"}`: "0+60x200",
				"penstock_serving" + other + `instance="x"}`:                                  "1x200",
			}),
			[]answer{{query: "stall", after: "20m", value: 0}},
		},
		"servers that are not ready do not count": {
			series{
				"penstock_serving" + release + `instance="a"}`: "1x200", "penstock_serving" + release + `instance="b"}`: "0x200",
				trained: "0+60x200", waited: "0+6x200",
			},
			[]answer{{query: "stall", after: "20m", value: 1.5}},
		},
		"no servers: no answer, which changes nothing": {
			series{"penstock_serving" + other + `instance="x"}`: "1x200"},
			[]answer{{query: "stall", after: "20m", none: true}, {query: "budget", after: "20m", none: true}},
		},
		"budgets without what caches hold": {
			series{
				"penstock_memory_budget_bytes" + release + `instance="a"}`: "100x9", "penstock_memory_budget_bytes" + release + `instance="b"}`: "100x9",
				"penstock_memory_reserved_bytes" + release + `instance="a"}`: "90x9", "penstock_memory_reserved_bytes" + release + `instance="b"}`: "90x9",
				"penstock_memory_idle_bytes" + release + `instance="a"}`: "20x9", "penstock_memory_idle_bytes" + release + `instance="b"}`: "45x9",
				"penstock_memory_reserved_bytes" + other + `instance="x"}`: "90x9",
			},
			[]answer{{query: "budget", after: "5m", value: 1.15}},
		},
	}
	of := queries(t)
	for name, one := range cases {
		t.Run(name, func(t *testing.T) { ask(t, of, one.input, one.answers) })
	}
}

// ask lets promtool evaluate queries over series, and compares the answers.
func ask(t *testing.T, of map[string]string, input series, answers []answer) {
	t.Helper()
	program := os.Getenv("PENSTOCK_PROMTOOL")
	require.NotEmpty(t, program, "PENSTOCK_PROMTOOL names no program: run make test-kubernetes")
	var given, expected []any
	for name, values := range input {
		given = append(given, map[string]any{"series": name, "values": values})
	}
	for _, one := range answers {
		require.Contains(t, of, one.query)
		samples := []any{}
		if !one.none {
			samples = append(samples, map[string]any{"labels": "{}", "value": one.value})
		}
		expected = append(expected, map[string]any{"expr": of[one.query], "eval_time": one.after, "exp_samples": samples})
	}
	text, err := yaml.Marshal(map[string]any{
		"evaluation_interval": "1m", "fuzzy_compare": true,
		"tests": []any{map[string]any{"interval": "1m", "input_series": given, "promql_expr_test": expected}},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	said, err := exec.CommandContext(t.Context(), program, "test", "rules", path).CombinedOutput()
	require.NoError(t, err, "%s\n%s", said, text)
}
