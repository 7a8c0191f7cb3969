package loader_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// storedRow is a training row by its split and its number there.
type storedRow struct {
	split int
	row   int64
}

// windowOfRow is a window, among those of all lanes.
type windowOfRow struct {
	lane, run int
	window    int64
}

// windowsOfPlan derives the window of each stored row from docs/spec/order.md, without the code under test: it lists
// the rows of each run, cuts the list into parts, turns each part to where it begins, and cuts it into blocks.
func windowsOfPlan(p *plan.Plan) map[storedRow]windowOfRow {
	windows := map[storedRow]windowOfRow{}
	for number, l := range p.Lanes {
		for at, run := 0, 0; at < len(l.Ranges); run++ {
			first, rows := l.Ranges[at], []storedRow{}
			for ; at < len(l.Ranges); at++ {
				one := l.Ranges[at]
				if one != first && (p.Splits[one.Split].Bucket.Of == 0 || p.Splits[one.Split].Bucket != p.Splits[first.Split].Bucket) {
					break
				}
				for row := one.From; row < one.To; row++ {
					rows = append(rows, storedRow{one.Split, row})
				}
			}
			count := (len(rows) + int(p.Rows.ShuffleWindow) - 1) / int(p.Rows.ShuffleWindow)
			for part, of := range divided(rows, int(p.Rows.ShuffleParts)) {
				if len(of) == 0 {
					continue
				}
				text := fmt.Sprintf("%d %d %d %q", 1, p.Rows.Seed, p.Rows.Epoch, []string{"part", p.Splits[first.Split].ID, strconv.FormatInt(first.From, 10), strconv.Itoa(part)})
				sum := sha256.Sum256([]byte(text))
				start := binary.BigEndian.Uint64(sum[:8]) % uint64(len(of))
				for window, block := range divided(slices.Concat(of[start:], of[:start]), count) {
					for _, row := range block {
						windows[row] = windowOfRow{number, run, int64(window)}
					}
				}
			}
		}
	}
	return windows
}

// divided divides a list into parts, the first of which have one element more.
func divided[E any](list []E, parts int) [][]E {
	out := make([][]E, parts)
	for i := range out {
		n := len(list) / (parts - i)
		if len(list)%(parts-i) > 0 {
			n++
		}
		out[i], list = list[:n], list[n:]
	}
	return out
}

// storedRows returns the rows of each split of a query's plan, as they are stored, by the split's id.
func storedRows(t *testing.T, c *scenario.Made, q dataset.Query) map[string][]row {
	t.Helper()
	q.Shuffle, q.ShuffleWindow, q.ShuffleParts, q.Dataset, q.Lanes, q.BatchRows = dataset.ShuffleSplits, 0, 0, "d", 1, 0
	rows := itemsOf(t, c, q)
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	stored := map[string][]row{}
	for _, r := range p.Lanes[0].Ranges {
		stored[p.Splits[r.Split].ID] = rows[:r.To-r.From]
		rows = rows[r.To-r.From:]
	}
	require.Empty(t, rows)
	return stored
}

// windowsOf returns the windows of a full read of one lane, in order, each with its rows as they are stored.
func windowsOf(t *testing.T, c *scenario.Made, q dataset.Query) [][]row {
	t.Helper()
	q.Dataset = "d"
	stored := storedRows(t, c, q)
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	type place struct {
		windowOfRow
		storedRow
	}
	var places []place
	for at, window := range windowsOfPlan(p.Plan) {
		places = append(places, place{window, at})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.window, b.window), cmp.Compare(a.split, b.split), cmp.Compare(a.row, b.row))
	})
	var windows [][]row
	for i, one := range places {
		if i == 0 || places[i-1].windowOfRow != one.windowOfRow {
			windows = append(windows, nil)
		}
		windows[len(windows)-1] = append(windows[len(windows)-1], stored[p.Splits[one.split].ID][one.row])
	}
	return windows
}
