// Command monitoring writes the Grafana dashboard and the Prometheus alerts of a server, and the conditions of the alerts
// into their runbook. The queries are in the tables panels and alerts; the last row of the dashboard shows all other metrics of docs/metrics.md.
//
//	go run ./tools/monitoring [-root .]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the folder of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// write writes all files below the root of the repository.
func write(root string) error {
	files, err := files(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// files returns the generated files, by their paths below the root of the repository.
func files(root string) (map[string][]byte, error) {
	known, err := metrics(root)
	if err != nil {
		return nil, err
	}
	dashboard, err := dashboardFile(known)
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(runbook)))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"deploy/grafana/penstock.json":  dashboard,
		"deploy/prometheus/alerts.yaml": rulesFile(),
		runbook:                         withConditions(page),
	}, nil
}
