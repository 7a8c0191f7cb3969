package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// metric is a row of the table in docs/metrics.md.
type metric struct {
	name, kind string
	labels     []string
	help       string
}

// metrics returns the metrics of docs/metrics.md in the order of the page.
func metrics(root string) ([]metric, error) {
	page := filepath.Join(root, "docs", "metrics.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var out []metric
	for _, row := range regexp.MustCompile("(?m)^\\| `(penstock_\\w+)` \\| (\\w+) \\| ([\\w, ]*) \\| (.+) \\|$").FindAllStringSubmatch(string(text), -1) {
		m := metric{name: row[1], kind: row[2], help: row[4]}
		for label := range strings.SplitSeq(row[3], ",") {
			if label = strings.TrimSpace(label); label != "" {
				m.labels = append(m.labels, label)
			}
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no table of metrics", page)
	}
	return out, nil
}

// metricNames matches the names of metrics in a query.
var metricNames = regexp.MustCompile(`\bpenstock_\w+`)

// base returns the name of a metric without the suffix of a histogram's series.
func base(name string, known map[string]metric) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if of := strings.TrimSuffix(name, suffix); of != name && known[of].kind == "histogram" {
			return of
		}
	}
	return name
}

// byName returns metrics by name.
func byName(all []metric) map[string]metric {
	out := map[string]metric{}
	for _, m := range all {
		out[m.name] = m
	}
	return out
}
