package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

// many returns a plan with a number of staging tables, each with a column of its own, that has something to say in every
// line of a summary.
func many(t *testing.T, entries int) (*plan.Plan, dataset.Query) {
	t.Helper()
	tables, files := plantest.Mixed()
	tables[0].Fields = append(tables[0].Fields, catalog.Field{ID: 90, Name: "seen", Type: arrow.FixedWidthTypes.Timestamp_us})
	var all []dataset.Staging
	for i := range entries {
		e := plantest.Entry()
		e.Name = fmt.Sprintf("entry_%d", i)
		e.Columns = []dataset.Column{{Column: "age", Name: fmt.Sprintf("age_%d", i)}}
		e.Filter = datasettest.Filter("age > 3")
		all = append(all, e)
		if i > 0 {
			tables = append(tables, tables[1])
			files.Staging = append(files.Staging, files.Staging[0])
		}
	}
	q := dataset.Query{
		Rows: dataset.Rows{
			Dataset: "home", Lanes: 64, Order: dataset.Shuffled, Since: 1,
			Filter: datasettest.Filter("day >= 1 AND (day = 1 OR age_0 = 3)"),
		},
		Reading: dataset.Reading{BatchRows: 100, Every: dataset.Every{Of: 4}, Tail: dataset.TailDrop},
	}
	p, err := plantest.Joined(plantest.Homefeed(all...), tables, files, q)
	require.NoError(t, err)
	return p, q
}

// Every summary fits, with as many lanes and staging tables as there may be, and its lines fit on a terminal.
//
// spec: output-8
func TestSummaryFits(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{1, 2, 3, 20, 100} {
		p, q := many(t, entries)
		require.Greater(t, strings.Count(explain.Text(p, q, nil), "\n"), 64)
		for _, lines := range []int{explain.MinSummary, 40} {
			text := explain.Summary(p, q, nil, lines)
			require.LessOrEqual(t, strings.Count(text, "\n"), lines, "%d entries:\n%s", entries, text)
			for line := range strings.Lines(text) {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
			}
			for _, part := range []string{"plan " + p.ID, "where    ", "since    1", "└─ gives", "order    shuffled", "counted  first", " 4 DataLoader workers, which read up to ", "windows  about "} {
				require.Contains(t, text, part)
			}
		}
	}
}

// Staging tables have all of their lines if these fit, or else one each, or else the first of them do.
func TestSummaryOfManyStagingTables(t *testing.T) {
	t.Parallel()
	p, q := many(t, 1)
	require.Contains(t, explain.Summary(p, q, nil, 40), "│   key      request_id = req, left join\n")
	p, q = many(t, 12)
	text := explain.Summary(p, q, nil, 40)
	require.Equal(t, 12, strings.Count(text, "├─ joins  entry_"), text)
	require.Contains(t, text, "├─ joins  entry_11: features.history@7, schema 1, left join, reads ")
	require.NotContains(t, text, "more, reads")
	text = explain.Summary(p, q, nil, explain.MinSummary)
	shown := strings.Count(text, "├─ joins  entry_")
	require.Less(t, shown, 12)
	require.Contains(t, text, fmt.Sprintf("├─ joins  %d staging tables more, reads ", 12-shown))
}

// Staging tables that a query does not need are named in one line, and have no figures and no notes.
//
// spec: resolve-90
func TestSummaryNamesWhatIsNotRead(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{2, 3, 20, 100} {
		p, q := many(t, entries) // its filter names a column of the first one
		q.Columns = []dataset.Column{{Column: "day"}, {Column: "age_1"}}
		for _, lines := range []int{explain.MinSummary, 40} {
			text := explain.Summary(p, q, nil, lines)
			require.LessOrEqual(t, strings.Count(text, "\n"), lines, text)
			require.Equal(t, 2, strings.Count(text, "├─ joins  "), text)
			require.Equal(t, entries > 2, strings.Contains(text, "├─ skips "), text)
		}
		text := explain.Text(p, q, nil)
		require.Equal(t, entries-2, strings.Count(text, "  not read: the query uses none of its values"), text)
		require.Equal(t, 2, strings.Count(text, " with all columns, each once while it is kept"), text)
	}
	p, q := many(t, 4)
	q.Columns = []dataset.Column{{Column: "day"}}
	require.Contains(t, explain.Summary(p, q, nil, 40), "├─ skips  3 staging tables that the query does not need: entry_1, entry_2, entry_3\n│\n└─ gives")
	q.Columns = []dataset.Column{{Column: "unknown"}}
	require.NotContains(t, explain.Summary(p, q, nil, 40), "skips")
}

// A line with many names has whole names, and the number of those that do not fit. Snapshots of
// promoted entries are left out before names are.
//
// spec: resolve-90, output-8
func TestSummaryListsWholeNames(t *testing.T) {
	t.Parallel()
	for entries, want := range map[int]string{
		3:  "├─ reads  promoted columns of 2 staging tables: entry_1 at snapshot 7, entry_2 at snapshot 7\n",
		4:  "├─ reads  promoted columns of 3 staging tables: entry_1, entry_2, entry_3\n",
		30: "├─ reads  promoted columns of 29 staging tables: entry_1, entry_2, entry_3, entry_4, and 25 more\n",
	} {
		p, q := many(t, entries)
		q.Columns = []dataset.Column{{Column: "day"}}
		for i := range p.Relation.Staging[1:] {
			p.Relation.Staging[i+1].Promoted = []resolve.PromotedColumn{}
		}
		require.Contains(t, explain.Summary(p, q, nil, 40), want)
	}
	p, q := many(t, 30)
	q.Columns = []dataset.Column{{Column: "day"}}
	require.Contains(t, explain.Summary(p, q, nil, 40), "├─ skips  29 staging tables that the query does not need: entry_1, entry_2, entry_3, and 26 more\n")
}

// Lanes without rows, or with much more than others, are worth knowing.
func TestSummaryNotesUnevenLanes(t *testing.T) {
	t.Parallel()
	p, q := many(t, 1)
	p.Lanes = []plan.Lane{{Rows: 300}, {Rows: 100}, {Rows: 100}, {Rows: 100}}
	require.Contains(t, explain.Summary(p, q, nil, 40), "    note     the longest lane has 2.0 times the rows of the average one\n")
	p.Lanes[1].Rows, p.Lanes[2].Rows = 0, 0
	require.Contains(t, explain.Summary(p, q, nil, 40), "    note     2 of 4 lanes have no rows\n")
	p.Lanes = []plan.Lane{{Rows: 110}, {Rows: 100}}
	require.NotContains(t, explain.Summary(p, q, nil, 40), "lane has")
	p.Lanes = nil
	require.Contains(t, explain.Summary(p, q, nil, 40), "    note     no row is read\n")
}
