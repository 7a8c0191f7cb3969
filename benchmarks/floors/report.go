package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report prints the tables, and writes them and all passes if a folder for results is set.
func report(out io.Writer, s settings, all []*measurement) error {
	var text strings.Builder
	date := time.Now().Format(time.DateOnly)
	fmt.Fprintf(&text, "## What it costs to deliver ready batches, %s\n\n%s. %d batches of %d rows, of which %d are different. Medians of %d turns.\n",
		date, machine(), s.batches, s.rows, s.distinct, s.rounds)
	for _, form := range []string{plain, indexed} {
		table(&text, form, all)
	}
	if _, err := io.WriteString(out, text.String()); err != nil || s.results == "" {
		return err
	}
	encoded, err := json.MarshalIndent(struct {
		Machine string         `json:"machine"`
		Batches int            `json:"batches"`
		Rows    int            `json:"batch_rows"`
		Ways    []*measurement `json:"ways"`
	}{machine(), s.batches, s.rows, all}, "", " ")
	if err != nil {
		return err
	}
	name := filepath.Join(s.results, date+"-floors")
	if err := os.WriteFile(name+".json", append(encoded, '\n'), 0o644); err != nil { //nolint:gosec // to be committed
		return err
	}
	return os.WriteFile(name+".md", []byte(text.String()), 0o644) //nolint:gosec // to be committed
}

// table prints the medians of a form. Ratios are to the same client's first way.
func table(out *strings.Builder, form string, all []*measurement) {
	fmt.Fprintf(out, "\n### %s\n\n| way | client | seconds (min to max) | server's CPU s | client's CPU s | seconds of gRPC's over TCP | CPU s of its | waits | other work, cores |\n", form)
	fmt.Fprintln(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|")
	first := map[string]*measurement{}
	for _, m := range all {
		if m.Form != form {
			continue
		}
		if first[m.Client] == nil {
			first[m.Client] = m
		}
		base := first[m.Client]
		if m.Client == none {
			base = first[inGo]
		}
		times := m.each(seconds)
		fmt.Fprintf(out, "| %s | %s | %.2f (%.2f to %.2f) | %.2f | %.2f | %.2f | %.2f | %.0f | %.1f |\n", m.Way, m.Client,
			median(times), slices.Min(times), slices.Max(times), median(m.each(serverCPU)), median(m.each(clientCPU)),
			m.ratio(base, seconds), m.ratio(base, bothCPU), median(m.each(waits)), median(m.each(otherWork)))
	}
}

func seconds(t turn) float64   { return t.Seconds }
func serverCPU(t turn) float64 { return t.Server }
func clientCPU(t turn) float64 { return t.Client }
func bothCPU(t turn) float64   { return t.Server + t.Client }
func waits(t turn) float64     { return float64(t.Waits) }
func otherWork(t turn) float64 { return t.Other }

func (m *measurement) each(of func(turn) float64) (all []float64) {
	for _, t := range m.Turns {
		all = append(all, of(t))
	}
	return all
}

// ratio returns the median of the ratios of both in the same round: other work on the machine, which
// changes from round to round, affects both.
func (m *measurement) ratio(to *measurement, of func(turn) float64) float64 {
	all := m.each(of)
	for i, base := range to.each(of) {
		all[i] /= base
	}
	return median(all)
}

// median returns the median, the lower one of two; 0 of nothing.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}
