package verify_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/verify"
)

// cases is the number of random cases.
func cases() uint64 {
	if os.Getenv("PENSTOCK_LONG") == "1" {
		return 2000
	}
	return 40
}

// TestMatchesAreThoseOfStreams: over tables of every layout and rule, a verification counts the
// same matching training rows as a stream, and finds every key in its bucket.
func TestMatchesAreThoseOfStreams(t *testing.T) {
	t.Parallel()
	matched, missing, duplicates := int64(0), int64(0), int64(0)
	refused := uint64(0)
	for seed := range cases() {
		c := scenario.Generate(7000+seed, 1+int(seed)%16, 1+int(seed)/16%16)
		lenient(c)
		c.Query.Limit = 0 // verify reads all rows
		w, err := c.Make()
		require.NoError(t, err)
		d, err := c.Decoded()
		require.NoError(t, err)
		l := loader.New(loader.Options{Datasets: []dataset.Dataset{d}, Catalog: w, Scan: w.Scan})
		shards, err := scenario.Read(context.Background(), l, c.Query)
		if err != nil { // a layout or a cast that is refused
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			refused++
			w.Release()
			continue
		}
		v, err := l.Verify(context.Background(), loader.PlanRequest{Query: c.Query}, nil)
		require.NoError(t, err, c.Name)
		for _, f := range v.Findings {
			require.Contains(t, []verify.Kind{verify.FewMatches, verify.Spelling}, f.Kind, "%s: %s", c.Name, v)
		}
		for _, table := range v.Tables[1:] {
			var rows, match, miss, null int64
			for _, s := range shards {
				counts := s.Report.Staging[table.Name]
				rows, match, miss, null = rows+counts.Rows, match+counts.Matched, miss+counts.Missing, null+counts.NullKeys
			}
			if rows == 0 {
				continue // the stream read no row, or needed nothing from the table
			}
			j := table.Join
			require.Equal(t, []int64{rows, match, miss, null}, []int64{j.TrainingRows, j.Matched, j.Missing, j.NullKeys}, "seed %d, %s: %s", seed, table.Name, v)
			require.Equal(t, []int64{rows, match}, []int64{sum(j.Cells.Rows), sum(j.Cells.Matched)}, "seed %d, %s", seed, table.Name)
			matched, missing, duplicates = matched+match, missing+miss, duplicates+j.DuplicatesAsked
		}
		w.Release()
	}
	require.Less(t, refused, cases()/4)
	require.Positive(t, matched)
	require.Positive(t, missing)
	require.Positive(t, duplicates)
}

// lenient removes the rules that end a stream, or that drop training rows before the joins, and
// allows every table to be read.
func lenient(c *scenario.Case) {
	c.Dataset.Training.Distinct = nil
	c.Query.Columns = nil
	for i := range c.Dataset.Staging {
		s := &c.Dataset.Staging[i]
		s.MinMatch = 0
		if s.Missing == rule.MissingError {
			s.Missing = rule.MissingNull
		}
		if s.Join != rule.Semi && s.Join != rule.Anti && s.Duplicates == rule.DuplicatesError {
			s.Duplicates = rule.DuplicatesFirst
		}
	}
}

// sum returns the sum of all counts of a grid.
func sum(of coverage.Grid) (total int64) {
	for _, row := range of {
		for _, n := range row {
			total += n
		}
	}
	return total
}
