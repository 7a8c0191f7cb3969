package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader/plan/coverage"
)

// sums has the results of a check so far.
type sums struct {
	join       Join
	tally      *coverage.Tally // of join.TrainingRows and join.Matched
	duplicates examples
	orphans    examples
}

// addKey adds the entries of one key to the results.
func (s *sums) addKey(entries []keyEntry) {
	s.join.Keys++
	rows, earliest := int64(0), entries[0]
	for _, e := range entries {
		rows += e.rows
		if e.first.compare(earliest.first) < 0 {
			earliest = e
		}
		if e.rows == 1 {
			continue
		}
		s.join.DuplicateKeys++
		s.join.SurplusRows += e.rows - 1
		if e.match {
			s.join.DuplicatesAsked++
		}
		s.duplicates.add(e)
	}
	if !entries[0].found {
		s.join.OrphanKeys++
		s.join.OrphanRows += rows
		earliest.rows = rows
		s.orphans.add(earliest)
	}
}

// examples has the first few keys, in the order of files and rows.
type examples []keyEntry

func (x *examples) add(e keyEntry) {
	at, _ := slices.BinarySearchFunc(*x, e, func(a, b keyEntry) int { return a.first.compare(b.first) })
	if at < shownKeys {
		*x = slices.Insert(*x, at, e)
		*x = (*x)[:min(len(*x), shownKeys)]
	}
}

// shown reads the values of example keys, to show them in the report.
func (c *keyCheck) shown(ctx context.Context, keys examples) ([]Key, error) {
	out := []Key{}
	for _, e := range keys {
		key := Key{Rows: e.rows, Files: []string{c.files[e.first.file].Location}}
		if e.second != (rowID{}) {
			key.Files = append(key.Files, c.files[e.second.file].Location)
		}
		source := c.source(int(e.first.file), e.first.row, e.first.row+1)
		_, err := c.read(ctx, c.staging.Name, source, c.columns.staging, func(rows arrow.RecordBatch, _ int64) error {
			key.Key = keyText(rows, c.columns.stagingKey)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}

// keyText returns the key of the first row as text.
func keyText(rows arrow.RecordBatch, key []int) string {
	values := make([]string, len(key))
	for i, at := range key {
		values[i] = shorten(batch.Text(rows.Column(at), 0))
	}
	return strings.Join(values, ", ")
}
