package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The grid of a dashboard has gridWidth columns.
const (
	gridWidth               = 24
	lineWidth, lineHeight   = 8, 8
	numberWidth, numberRows = 4, 4
)

// object is a JSON object of Grafana.
type object = map[string]any

// dashboardFile returns the dashboard as Grafana imports it.
func dashboardFile(known []metric) ([]byte, error) {
	var panels []object
	y, id := 0, 0
	add := func(p object, width, height, x int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, p)
	}
	all := append(rows(), others(known))
	for _, r := range all {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, gridWidth, 1, 0)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			width, rowHeight := lineWidth, lineHeight
			if p.form == number {
				width, rowHeight = numberWidth, numberRows
			}
			if x+width > gridWidth {
				x, y = 0, y+height
			}
			add(p.grafana(), width, rowHeight, x)
			x, height = x+width, rowHeight
		}
		y += height
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(object{
		"uid": "penstock", "title": "Penstock", "description": "Servers of Penstock: streams, memory, storage, joins. Written by go run ./tools/monitoring.",
		"tags": []string{"penstock"}, "schemaVersion": 41, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time": object{"from": "now-3h", "to": "now"}, "templating": object{"list": variables()}, "annotations": object{"list": restarts()}, "panels": panels,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return out.Bytes(), nil
}

// datasource refers to the Prometheus that the user chooses.
func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// variables are the choices at the top of the dashboard.
func variables() []object {
	choice := func(name, label, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "datasource": datasource(), "query": object{"qryType": 1, "query": query, "refId": name},
			"definition": query, "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	return []object{
		{"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "refresh": 1},
		choice("job", "job", "label_values(penstock_build_info, job)"),
		choice("instance", "server", `label_values(penstock_build_info{job=~"$job"}, instance)`),
		choice("dataset", "dataset", `label_values(penstock_streams_open{job=~"$job"}, dataset)`),
	}
}

// restarts marks the starts of servers on all panels.
func restarts() []object {
	return []object{{
		"name": "Starts", "enable": true, "iconColor": "blue", "datasource": datasource(), "titleFormat": "{{instance}} started",
		"expr": selected(`changes(process_start_time_seconds{$at}[1m]) > 0`), "step": "1m",
	}}
}

// selected replaces the placeholders of a query by labels of the chosen servers and datasets.
func selected(expr string) string {
	const at = `job=~"$job",instance=~"$instance"`
	return strings.NewReplacer("$at", at, "$of", at+`,dataset=~"$dataset"`).Replace(expr)
}

// grafana returns a panel without its place.
func (p panel) grafana() object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": datasource(), "expr": selected(q.expr), "legendFormat": q.legend, "editorMode": "code", "range": true, "instant": false,
		})
	}
	out := object{"title": p.title, "description": p.description, "datasource": datasource(), "targets": targets}
	defaults := object{"unit": p.unit, "min": 0}
	reduce := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.form {
	case number:
		out["type"] = "stat"
		out["options"] = object{
			"reduceOptions": reduce, "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto", "orientation": "auto",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		}
	case lines, stacked:
		out["type"] = "timeseries"
		out["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": false}
		if p.form == stacked {
			custom["fillOpacity"], custom["stacking"] = 30, object{"mode": "normal", "group": "A"}
		}
		defaults["custom"] = custom
	}
	out["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	return out
}

// others returns the row of all metrics that no other panel shows.
func others(known []metric) row {
	shown := map[string]bool{}
	byName := byName(known)
	for _, r := range rows() {
		for _, p := range r.panels {
			for _, q := range p.queries {
				for _, name := range metricNames.FindAllString(q.expr, -1) {
					shown[base(name, byName)] = true
				}
			}
		}
	}
	out := row{title: "All other metrics"}
	for _, m := range known {
		if !shown[m.name] {
			out.panels = append(out.panels, m.panel())
		}
	}
	return out
}

// panel returns the panel of a metric that no other panel shows.
func (m metric) panel() panel {
	title := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(m.name, "penstock_"), "_total"), "_", " ")
	p := panel{title: strings.ToUpper(title[:1]) + title[1:], description: m.help, unit: m.unit(), form: lines}
	labels := slices.Clone(m.labels)
	if i := slices.Index(labels, "job"); i >= 0 {
		labels[i] = "exported_job" // Prometheus renames a label that it sets itself
	}
	legend := make([]string, 0, len(labels))
	for _, label := range labels {
		legend = append(legend, "{{"+label+"}}")
	}
	by := ""
	if len(labels) > 0 {
		by = " by (" + strings.Join(labels, ", ") + ")"
	}
	at := "{$at}"
	if slices.Contains(m.labels, "dataset") {
		at = "{$of}"
	}
	expr := map[string]string{
		"counter":   "sum" + by + " (rate(" + m.name + at + "[$__rate_interval]))",
		"gauge":     "sum" + by + " (" + m.name + at + ")",
		"histogram": "histogram_quantile(0.99, sum by (" + strings.Join(append([]string{"le"}, labels...), ", ") + ") (rate(" + m.name + "_bucket" + at + "[$__rate_interval])))",
	}
	p.queries = []query{{expr[m.kind], strings.Join(legend, " ")}}
	return p
}

// unit returns Grafana's unit of a metric.
func (m metric) unit() string {
	units := map[string]string{"_bytes": "bytes", "_bytes_total": "Bps", "_seconds": "s", "_seconds_total": "short", "_rate": "percentunit"}
	for _, suffix := range slices.Sorted(maps.Keys(units)) {
		if strings.HasSuffix(m.name, suffix) {
			return units[suffix]
		}
	}
	return "short"
}
