package planpicture

import (
	"math"
	"time"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/svg"
)

// Trend is what the last streams of a dataset matched.
type Trend struct {
	Pictures []svg.Captioned // of a few entries each
	Changes  []Change        // one for each entry
}

// Change compares the match rate of an entry in the last stream with that of about a day before.
type Change struct {
	Entry    string
	Now      float64
	NowTime  time.Time
	Then     float64
	ThenTime time.Time // zero: there is only one stream
	Fell     bool      // by more than a hundredth
}

const (
	linesOfPicture = 4 // so that all lines differ
	fall           = 0.01
	day            = 24 * time.Hour
)

// Rates draws the match rates of streams, the oldest first, by entry. Streams whose rate is lower than that of the stream before, by more than a
// hundredth, are marked.
func Rates(runs []flight.Run) (out Trend) {
	var x []string
	var series []svg.Series
	at := map[string]int{}
	for i, run := range runs {
		x = append(x, run.Ended.UTC().Format("01-02 15:04"))
		for _, m := range run.Matches {
			if m.Rows == 0 {
				continue
			}
			if _, ok := at[m.Entry]; !ok {
				at[m.Entry] = len(series)
				series = append(series, svg.Series{Name: m.Entry, Values: unknown(len(runs))})
			}
			series[at[m.Entry]].Values[i] = float64(m.Matched) / float64(m.Rows)
		}
	}
	for i := range series {
		series[i].Marked = falls(series[i].Values)
		out.Changes = append(out.Changes, change(series[i], runs))
	}
	for from := 0; from < len(series); from += linesOfPicture {
		lines := svg.Lines{Title: "match rates of the last streams", Label: svg.Percent, X: x, Zero: true, Series: series[from:min(from+linesOfPicture, len(series))]}
		out.Pictures = append(out.Pictures, svg.Captioned{Caption: "Match rates of the last streams on this server, by the time at which they ended (UTC)", Picture: lines.Draw()})
	}
	return out
}

// unknown returns a number of values that are not known.
func unknown(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// falls returns the positions of rates that are lower than the one before.
func falls(rates []float64) (out []int) {
	before := math.NaN()
	for i, rate := range rates {
		if rate < before-fall {
			out = append(out, i)
		}
		if !math.IsNaN(rate) {
			before = rate
		}
	}
	return out
}

// change compares the last rate of an entry with the last one that is at least a day older, or else with the first one.
func change(of svg.Series, runs []flight.Run) Change {
	out := Change{Entry: of.Name}
	last := len(runs) - 1
	for math.IsNaN(of.Values[last]) {
		last--
	}
	out.Now, out.NowTime = of.Values[last], runs[last].Ended
	for i, rate := range of.Values[:last] {
		if !math.IsNaN(rate) && (out.ThenTime.IsZero() || out.NowTime.Sub(runs[i].Ended) >= day) {
			out.Then, out.ThenTime = rate, runs[i].Ended
		}
	}
	out.Fell = !out.ThenTime.IsZero() && out.Now < out.Then-fall
	return out
}
