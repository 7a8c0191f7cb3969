package explain_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// TestDrawings shows a plan as drawn for a newcomer on a terminal of 100 columns. Long
// names lose their middle, and many layouts are summarized by their number.
func TestDrawings(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Mixed()
	d := plantest.Homefeed(plantest.Entry())
	first, err := plantest.Joined(d, tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home", Lanes: 4}})
	require.NoError(t, err)
	drawn := []string{explain.Summary(first, dataset.Query{Rows: dataset.Rows{Lanes: 4}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 2}, BatchRows: 100}}, nil, 40)}

	long := strings.Repeat("a_name_of_a_team_that_likes_long_names", 4)
	tables[0].Name, tables[1].Name = "lake."+long+".train", "features."+long+".history"
	d.Training.Table, d.Name = tables[0].Name, long
	d.Staging[0].Table, d.Staging[0].Name = tables[1].Name, long
	d.Staging[0].Join = rule.Inner
	tables[1].Specs = map[int]catalog.Spec{2: {plantest.Partitioned("b", 1, catalog.Bucket, 12)}}
	for i := range files.Staging[0].Files {
		files.Staging[0].Files[i].Spec = 2
		files.Staging[0].Files[i].Partition = []any{int64(i % 12)}
	}
	second, err := plantest.Joined(d, tables, files, dataset.Query{Rows: dataset.Rows{Dataset: long, Lanes: 1, Order: dataset.Shuffled, Filter: datasettest.Filter("day = 1")}})
	require.NoError(t, err)
	drawn = append(drawn, explain.Summary(second, dataset.Query{Rows: dataset.Rows{Lanes: 1}, Reading: dataset.Reading{BatchRows: 100}}, nil, 40), explain.Summary(second, dataset.Query{Rows: dataset.Rows{Lanes: 1}, Reading: dataset.Reading{BatchRequests: 8}}, nil, 40))

	for _, text := range drawn {
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
		}
	}
	golden(t, "drawings", strings.Join(drawn, "\n"))
}

// TestDrawingsShowWhichStagingRowsCount shows which of a key's rows count by time and by
// a filter. A key with the same name in both tables is written once.
func TestDrawingsShowWhichStagingRowsCount(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Mixed()
	for i, id := range []int{90, 91} {
		tables[i].Fields = append(tables[i].Fields, catalog.Field{ID: id, Name: "seen", Type: arrow.FixedWidthTypes.Timestamp_us})
	}
	e := plantest.Entry()
	e.Filter = datasettest.Filter("age > 3")
	e.PointInTime = &dataset.PointInTime{Training: "seen", Staging: "seen", Tolerance: dataset.Lag{Time: 24 * time.Hour}, Exact: true}
	p, err := plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home"}})
	require.NoError(t, err)
	drawn := explain.Summary(p, dataset.Query{Rows: dataset.Rows{Lanes: 1}}, nil, 40)
	require.Contains(t, drawn, "│   key      request_id = req, left join\n"+
		"│   when     the latest row whose seen is at or before seen, by 1d at most\n"+
		"│   where    age > 3\n")

	for i, f := range tables[1].Fields {
		if f.Name == "req" {
			tables[1].Fields[i].Name = "request_id"
		}
	}
	e.Key = []dataset.KeyPair{{Training: "request_id", Staging: "request_id"}}
	e.PointInTime = &dataset.PointInTime{Training: "seen", Staging: "seen", Exact: true}
	p, err = plantest.Joined(plantest.Homefeed(e), tables, files, dataset.Query{Rows: dataset.Rows{Dataset: "home"}})
	require.NoError(t, err)
	drawn = explain.Summary(p, dataset.Query{Rows: dataset.Rows{Lanes: 1}}, nil, 40)
	require.Contains(t, drawn, "│   key      request_id, left join\n│   when     the latest row whose seen is at or before seen, by 0s at most\n")
}
