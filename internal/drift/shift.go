package drift

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

const (
	// shiftBins is the number of bins of a day, each of a quarter of an hour. All offsets of time zones are whole bins.
	shiftBins = 96
	// leastShifted is the least distance of two distributions of times of the day that matters, as a share of the values.
	leastShifted = 0.05
	// A shift explains the difference of two distributions if the distance without it is at least explained times as large.
	explained = 2
)

// shift compares the times of the day. It looks for the shift of the base's times after which the distributions are nearest to each
// other. The change is 0 if the distributions do not differ, or if no shift explains how they differ.
func (c *comparing) shift() {
	base, of := c.base.TimesOfDay(shiftBins), c.of.TimesOfDay(shiftBins)
	n, m := sum(base), sum(of)
	if n == 0 || m == 0 {
		return
	}
	// Each of the two one-sided distances that the circular distance adds is at most the limit.
	reach := 2 * c.rankLimit(c.independent(int(n), int(m))) //nolint:mnd // two distances
	if reach >= 1 {
		return // there are too few rows to tell
	}
	unshifted := circular(base, of, 0)
	bins, least := nearest(base, of, math.Sqrt(1/n+1/m))
	change := 0.0
	if unshifted > max(reach, leastShifted) && unshifted >= explained*least {
		change = float64(bins) * (24 * time.Hour / shiftBins).Seconds() //nolint:mnd // a day
	}
	c.add(Change{Measure: Shift, Change: change, Limit: shiftFloor, InSeconds: true})
}

// nearest returns the shift of the base in bins after which the distributions are nearest to each other, and their distance. Of
// shifts whose distances differ by no more than noise, it prefers whole hours, then half hours, and then small ones.
func nearest(base, of []float64, noise float64) (bins int, least float64) {
	distances := make([]float64, shiftBins+1) // from half a day earlier to half a day later
	for i := range distances {
		distances[i] = circular(base, of, i-shiftBins/2)
	}
	least = slices.Min(distances)
	for _, step := range []int{4, 2, 1} { //nolint:mnd // bins of an hour and of half an hour
		found := false
		for i, d := range distances {
			at := i - shiftBins/2
			if at%step == 0 && at != 0 && d <= least+noise && (!found || d < distances[bins+shiftBins/2]) {
				bins, found = at, true
			}
		}
		if found {
			return bins, distances[bins+shiftBins/2]
		}
	}
	return 0, least
}

// circular returns the distance between two distributions on a circle, after the base has been shifted by a number of bins: the
// largest difference between the shares of any arc. Source: Kuiper: Tests concerning random points on a circle, 1960.
func circular(base, of []float64, shift int) float64 {
	n, m, at, low, high := sum(base), sum(of), 0.0, 0.0, 0.0
	for i := range of {
		at += of[i]/m - base[((i-shift)%len(base)+len(base))%len(base)]/n
		low, high = min(low, at), max(high, at)
	}
	return high - low
}

func sum(values []float64) (out float64) {
	for _, v := range values {
		out += v
	}
	return out
}

// OfMatches is the Of of a shift of the times of staging rows that match. Other rows match after a shift, so that the table's shift
// may be larger.
const OfMatches = "matches"

// shiftText describes a shift. Shifts by whole or half hours are those of time zones.
func (c Change) shiftText() string {
	subject, direction, hint := "all times are", "later", ""
	if c.Change < 0 {
		direction = "earlier"
	}
	if math.Mod(c.Change, (30*time.Minute).Seconds()) == 0 { //nolint:mnd // half an hour
		hint = ", as if a local time had been written as UTC"
	}
	if c.Of == OfMatches {
		subject, hint = "the times of rows that match are", hint+"; the statistics of the table show the exact shift"
	}
	return fmt.Sprintf("%s about %s %s%s (limit %s)", subject, Seconds(c.Size()), direction, hint, Seconds(c.Limit))
}

// Seconds returns a duration in the unit that fits: seconds, minutes, hours or days.
func Seconds(of float64) string {
	const digits, atLeast = 3, 2
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}} {
		if math.Abs(of) >= atLeast*unit.seconds {
			return strconv.FormatFloat(of/unit.seconds, 'g', digits, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(of, 'g', digits, 64) + " s"
}
