package flight

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/stream"
)

// matchRates returns the share of training rows that match each staging table, as attributes
// of a log line. A table of which no row was looked up has none.
func matchRates(staging map[string]stream.StagingReport) []any {
	var rates []any
	for _, name := range slices.Sorted(maps.Keys(staging)) {
		if c := staging[name].Counts; c.Rows > 0 {
			rates = append(rates, slog.Float64(name, float64(c.Matched)/float64(c.Rows)))
		}
	}
	return rates
}

// waitedTimes returns how long a stream has waited, by cause, as attributes of a log line. Causes without a wait have none.
func waitedTimes(all waits.Totals) []any {
	var times []any
	for _, c := range waits.Causes() {
		if took := all.Of(c); took > 0 {
			times = append(times, slog.Duration(c.String(), took))
		}
	}
	return times
}

// warnOfMatches logs what is suspicious about the joins of a stream that ended, in one line.
func (o *streamSender) warnOfMatches() {
	var warnings []any
	for _, name := range slices.Sorted(maps.Keys(o.staging)) {
		if text := o.staging[name].Warning; text != "" {
			warnings = append(warnings, slog.String(name, text))
		}
	}
	if len(warnings) > 0 {
		o.log.WarnContext(o.ctx, "few rows match a staging table", slog.Group("staging", warnings...))
	}
}
