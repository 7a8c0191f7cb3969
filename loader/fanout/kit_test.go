package fanout_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/plan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const plenty = 1 << 30

// kit is a table of numbers, a left staging table of half of them, and what reads them.
type kit struct {
	*scenario.World
	budget     *budget.Budget
	sharer     *fanout.Sharer
	loader     *fanout.SharingLoader
	minimum    float64 // min_match
	duplicates rule.Duplicates
	join       rule.Kind
	defaults   bool              // v has a default
	id         func(row int) int // of a training row
	text       bool              // item is a text of five values
	length     int               // of a text that is the item; 0: it is none
	now        func() time.Time  // the sharer's clock
	twice      int               // the key that two staging rows have; 0: none

	mu     sync.Mutex
	opened map[string]int                                // by file: how often it was scanned
	before func(ctx context.Context, table string) error // called before a scan; may be nil
}

// newKit returns a kit whose windows have at most the given number of bytes.
func newKit(t *testing.T, rows int, window int64, change func(*kit)) *kit {
	t.Helper()
	k := &kit{World: scenario.NewWorld(), budget: budget.New(plenty), opened: map[string]int{}, id: number}
	t.Cleanup(k.Release)
	k.BatchRows = 16
	change(k)
	kind, item := "long", func(row int) string { return strconv.Itoa(-row) }
	if k.text {
		kind, item = "string", func(row int) string { return "item" + strconv.Itoa(row/7%5) }
	}
	if k.length > 0 {
		kind, item = "string", func(row int) string { return fmt.Sprintf("%0*d", k.length, row) }
	}
	k.write(t, "ml.train", "id:long item:"+kind, rows, func(row int) string { return strconv.Itoa(k.id(row)) + " " + item(row) })
	k.write(t, "features.f", "id:long v:long", rows/2, func(row int) string {
		if row == k.twice+1 && k.twice > 0 {
			return strconv.Itoa(k.twice) + " 0"
		}
		return strconv.Itoa(row) + " " + strconv.Itoa(-row)
	})
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{k.dataset()}, Catalog: k.World, Scan: k.scan, Budget: k.budget})
	k.sharer = fanout.New(fanout.Options{Window: window, Budget: k.budget, Clock: k.now})
	k.loader = k.sharer.Over(l)
	return k
}

func (k *kit) dataset() dataset.Dataset {
	f := dataset.Staging{Table: "features.f", MinMatch: k.minimum, Duplicates: k.duplicates, Join: k.join}
	if k.defaults {
		f.Missing, f.Defaults = rule.MissingDefault, []dataset.Default{{Column: "v", Value: int64(7)}}
	}
	d := dataset.Dataset{
		Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{f},
	}
	return d.Defaults()
}

func number(row int) int { return row }

// write makes a table in 16 buckets of id.
func (k *kit) write(t *testing.T, name, header string, rows int, line func(row int) string) {
	t.Helper()
	fields, err := scenario.Fields(header)
	require.NoError(t, err)
	s, err := scenario.Spec("bucket(16,id)", fields)
	require.NoError(t, err)
	table, err := k.NewTable(name, fields, s)
	require.NoError(t, err)
	text := make([]string, rows)
	for i := range text {
		text[i] = line(i)
	}
	b, err := scenario.Rows(fields, text)
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, k.Append(table, 0, b, 0))
}

func (k *kit) scan(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
	k.mu.Lock()
	before := k.before
	for _, f := range source.Files {
		k.opened[f.File.Location]++
	}
	k.mu.Unlock()
	if before != nil {
		if err := before(ctx, source.Table.Name); err != nil {
			return nil, err
		}
	}
	return k.Scan(ctx, source, columns)
}

// set sets what is called before each scan.
func (k *kit) set(before func(ctx context.Context, table string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before = before
}

// scans returns how often files were scanned, and resets the counts.
func (k *kit) scans() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	opened := k.opened
	k.opened = map[string]int{}
	return opened
}

// query returns a query of one shard of two lanes.
func query(change func(*dataset.Query)) dataset.Query {
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Lanes: 2}, Reading: dataset.Reading{BatchRows: 8, Shard: dataset.Shard{Index: 0, Of: 1}}}
	change(&q)
	return q
}

func unchanged(*dataset.Query) {}

// open opens a stream that shares.
func (k *kit) open(ctx context.Context, t *testing.T, q dataset.Query) loader.Stream {
	t.Helper()
	p, err := k.loader.Plan(t.Context(), q)
	require.NoError(t, err)
	s, err := k.loader.Open(ctx, p, loader.StreamOptions{})
	require.NoError(t, err)
	return s
}

// alone returns what a stream of a query gives that shares nothing.
func (k *kit) alone(t *testing.T, q dataset.Query) []string {
	t.Helper()
	p, err := k.loader.Plan(t.Context(), q)
	require.NoError(t, err)
	s, err := k.loader.Loader.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	rows, err := rest(s)
	require.NoError(t, err)
	k.scans()
	return rows
}

// rest reads a stream to its end: the rows of each batch, with its cursor.
func rest(s loader.Stream) ([]string, error) {
	var out []string
	for s.Next() {
		out = append(out, given(s))
	}
	return out, s.Err()
}

// given returns the batch last returned.
func given(s loader.Stream) string {
	return fmt.Sprint(scenario.Texts(scenario.Values(s.RecordBatch())), string(s.Cursor().JSON()))
}

// next returns the next batch.
func next(t *testing.T, s loader.Stream) string {
	t.Helper()
	require.True(t, s.Next(), "%v", s.Err())
	return given(s)
}

func same(*kit) {}
