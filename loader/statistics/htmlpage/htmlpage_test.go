package htmlpage_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
	"github.com/penstock/penstock/loader/statistics/htmlpage"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again; look at them")

// sources are columns of all kinds: their types, and values at random.
func sources() []struct {
	name string
	of   arrow.DataType
	add  func(rng *rand.Rand, b array.Builder)
} {
	text := func(f func(rng *rand.Rand) string) func(*rand.Rand, array.Builder) {
		return func(rng *rand.Rand, b array.Builder) {
			if err := b.AppendValueFromString(f(rng)); err != nil {
				panic(err)
			}
		}
	}
	return []struct {
		name string
		of   arrow.DataType
		add  func(rng *rand.Rand, b array.Builder)
	}{
		{"price", arrow.PrimitiveTypes.Float64, text(func(rng *rand.Rand) string {
			switch rng.IntN(60) {
			case 0:
				return "NaN"
			case 1, 2:
				return "(null)"
			}
			return fmt.Sprint(math.Exp(rng.NormFloat64()))
		})},
		{"label", arrow.PrimitiveTypes.Int32, text(func(rng *rand.Rand) string { return strconv.Itoa(rng.IntN(20) / 19) })},
		{"user_id", arrow.PrimitiveTypes.Int64, text(func(rng *rand.Rand) string { return strconv.FormatInt(rng.Int64N(1_000_000), 10) })},
		{"country", arrow.BinaryTypes.String, text(func(rng *rand.Rand) string {
			return []string{"CH", "DE", "a long name of a country that has no end", "", "(null)"}[min(rng.IntN(8), rng.IntN(5))]
		})},
		{"time", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, text(func(rng *rand.Rand) string {
			return time.Date(2026, 10, 1, rng.IntN(480), rng.IntN(60), 0, 0, time.UTC).Format("2006-01-02T15:04:05Z")
		})},
		{"clicked", arrow.FixedWidthTypes.Boolean, text(func(rng *rand.Rand) string { return strconv.FormatBool(rng.IntN(3) == 0) })},
		{"empty", arrow.PrimitiveTypes.Float32, text(func(*rand.Rand) string { return "(null)" })},
		{"embedding", arrow.ListOf(arrow.PrimitiveTypes.Float32), func(rng *rand.Rand, b array.Builder) {
			list := b.(*array.ListBuilder)
			list.Append(true)
			filled := rng.IntN(100) > 0
			for range 8 {
				x := float32(0)
				if filled {
					x = float32(rng.NormFloat64())
				}
				list.ValueBuilder().(*array.Float32Builder).Append(x)
			}
		}},
	}
}

// result describes random rows of columns of all kinds, each of them repeated, with their names changed.
func result(t *testing.T, rows, repeated int, values bool, name func(string) string) *statistics.Result {
	t.Helper()
	out := &statistics.Result{
		Version: 1, Table: name("features.history"), Snapshot: 8744736658442914487, Time: time.Date(2026, 11, 26, 6, 0, 2, 0, time.UTC),
		Rows: int64(rows), Files: new(16), Bytes: new(int64(317 << 20)), Sample: statistics.Sample{Rows: int64(rows) / 4, Rate: 0.25, QuantileError: 0.0112, DistinctError: stats.DistinctError},
		QuantileNames: stats.Quantiles, NotDescribed: []string{name("context")},
	}
	once := summaries(t, rows, values, name, nil)
	for i := range repeated {
		for _, c := range once {
			if i > 0 {
				c.Name = fmt.Sprintf("%d_%s", i, c.Name)
			}
			out.Columns = append(out.Columns, c)
		}
	}
	return out
}

// summaries describes random rows of columns of all kinds.
func summaries(t *testing.T, rows int, values bool, name func(string) string, like []stats.Summary) (out []stats.Summary) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(rows), 2))
	for _, s := range sources() {
		b := array.NewBuilder(memory.DefaultAllocator, s.of)
		for range rows {
			s.add(rng, b)
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: s.of, Nullable: true}}, nil)
		batch := array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(rows))
		numbers := make([]int64, rows)
		for i := range numbers {
			numbers[i] = int64(i)
		}
		part := stats.NewPart(schema.Fields(), stats.Sampling{Level: 2})
		_, err := part.Select(batch, numbers)
		require.NoError(t, err)
		require.NoError(t, part.Add(batch, memory.DefaultAllocator))
		out = append(out, part.Summarize(0, name(s.name), values, like)...)
		part.Release()
	}
	return out
}

// compared returns a result that is compared with a base, whose values are of other rows.
func compared(t *testing.T, rows int, name func(string) string) *statistics.Result {
	t.Helper()
	r := result(t, rows, 1, true, name)
	c := &statistics.Comparison{
		Table: r.Table, Snapshot: 4093385187436622843, Time: r.Time.AddDate(0, 0, -7), Rows: int64(rows) / 2, Sample: r.Sample, Partition: name("day(time)"),
		Columns: summaries(t, rows/2, true, name, r.Columns), Added: []string{name("age")}, Retyped: []string{name("score")}, MorePartitions: 3,
	}
	for day := range 20 {
		partition := fmt.Sprintf("2026-10-%02d", day+1)
		c.Partitions = append(c.Partitions, statistics.PartitionRows{Partition: partition, Rows: int64(rows) / 20, BaseRows: int64(rows) / 40})
		for i, measure := range []drift.Measure{drift.Nulls, drift.Mean, drift.Top} {
			base, value := 0.03, 0.03+0.001*float64((day*7+i)%5)
			if day == 7 {
				value = 0.3
			}
			change := drift.Change{
				Column: name("price"), Partition: partition, Measure: measure, Base: &base, Value: &value, Change: value - base, Limit: 0.02 + 0.01*float64(i), Alarm: day == 7,
			}
			if measure == drift.Top {
				change.Of = name("0")
			}
			c.Changes = append(c.Changes, change)
			if change.Alarm {
				c.Alarms = append(c.Alarms, statistics.Alarm{Change: change, Text: change.Text()})
			}
		}
	}
	base, value := 1., 1.01
	c.Changes = append(c.Changes, drift.Change{Column: name("user_id"), Measure: drift.Mean, Base: &base, Value: &value, Change: 0.01, Limit: 0.05})
	c.Changes = append(c.Changes, drift.Change{Column: name("label"), Measure: drift.Unit, Base: &base, Value: &base, Change: 1, Limit: 1.5})
	r.Against = c
	return r
}

// labeled adds a label to a result, with a column that has it.
func labeled(r *statistics.Result, name func(string) string) *statistics.Result {
	r.Label = &stats.Label{Column: name("label"), Measure: stats.AUC, Limit: stats.LeakLimit, Columns: []stats.Relation{
		{Column: name("price"), Value: 0.0012, Rows: 4993, Leak: true}, {Column: name("user_id"), Value: 0.6172, Rows: 5000, Base: new(0.5123), RiseLimit: 0.07, Risen: true}, {Column: name("gone"), Value: 0.5, Rows: 51},
	}}
	return r
}

// spec: stats-47
func TestPageOfALabel(t *testing.T) {
	shown, links := parse(t, page(t, labeled(result(t, 5000, 1, true, same), same)))
	for _, want := range []string{"AUC of columns with the label label", "price: 0.0012 is beyond 0.99, and the column probably has the label itself", "AUC of user_id: 0.6172", "gone"} {
		require.Contains(t, shown, want)
	}
	require.Less(t, strings.Index(shown, "price: 0.0012"), strings.Index(shown, "Unusual values"), "alarms are first")
	require.NotEmpty(t, links)
	other := labeled(result(t, 5000, 1, true, same), same)
	other.Label.Measure, other.Label.Columns = stats.Correlation, nil
	shown, _ = parse(t, page(t, other))
	for _, want := range []string{"correlation of columns with the label label", "No column is beyond 0.99.", "No column of numbers has enough rows."} {
		require.Contains(t, shown, want)
	}
	many := labeled(result(t, 5000, 1, true, same), same)
	for i := range 100 {
		many.Label.Columns = append(many.Label.Columns, stats.Relation{Column: fmt.Sprint("more", i), Value: 0.5, Rows: 60})
	}
	shown, _ = parse(t, page(t, many))
	require.Contains(t, shown, "… and 63 more, which --json lists.")
	joined := dataset(t, 20_000, same)
	joined.Label = many.Label
	shown, _ = parse(t, datasetPage(t, joined))
	require.Contains(t, shown, "AUC of columns with the label label")
}

func page(t *testing.T, r *statistics.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, htmlpage.Write(&b, r))
	return b.String()
}

// dataset returns a dataset with entries that lack matches on one day, compared with a base.
func dataset(t *testing.T, rows int, name func(string) string) *entries.Result {
	t.Helper()
	r := compared(t, rows, name)
	out := &entries.Result{
		Version: 1, Dataset: name("homefeed"), Training: name("ml.impressions"), Snapshot: r.Snapshot, Rows: r.Rows, Sample: r.Sample, Names: r.QuantileNames,
		Columns: r.Columns[:2], Left: r.NotDescribed, Against: r.Against, Partition: name("day(time)"),
	}
	out.Against.Dataset = name("yesterday")
	age := r.Columns[0]
	age.Name = name("history") + ".age"
	for i, entry := range []string{"history", "device", "price", "context", "promoted"} {
		e := entries.Entry{Name: name(entry), Table: name("features." + entry), Promoted: entry == "promoted"}
		if !e.Promoted {
			e.Matches = &entries.Matches{Rows: r.Rows, Matched: r.Rows - 1234, MatchRate: float64(r.Rows-1234) / float64(r.Rows), NullKeys: 7, Duplicates: 5}
			e.Keys = &entries.Keys{Rows: 5000, Keys: 4900, DuplicateKeys: 50, OrphanKeys: 4321}
		}
		if i == 0 {
			e.Age, e.AgeUnit, e.Columns = &age, "s", r.Columns[2:]
		}
		for day := range 20 {
			p := entries.PartitionMatch{Partition: fmt.Sprintf("2026-10-%02d", day+1), Rows: r.Rows / 20, MatchRate: 0.99 - 0.01*float64(i)}
			if day == 7 && i == 1 {
				p.MatchRate = 0.5
			}
			if !e.Promoted {
				e.Partitions = append(e.Partitions, p)
			}
			if i == 0 {
				out.Partitions = append(out.Partitions, entries.Partition{Partition: p.Partition, Rows: p.Rows})
			}
		}
		out.Entries = append(out.Entries, e)
	}
	base, value := 0.98, 0.5
	change := drift.Change{Column: name("device"), Partition: "2026-10-08", Measure: drift.MatchRate, Base: &base, Value: &value, Change: value - base, Limit: 0.05, Alarm: true}
	out.Against.Changes = append(out.Against.Changes, change)
	out.Against.Alarms = slices.Insert(out.Against.Alarms, 0, statistics.Alarm{Change: change, Text: change.Text()})
	return out
}

func datasetPage(t *testing.T, r *entries.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, htmlpage.WriteDataset(&b, r))
	return b.String()
}

// spec: stats-46
func TestPageOfADataset(t *testing.T) {
	got := datasetPage(t, dataset(t, 20_000, same))
	shown, _ := parse(t, got)
	for _, want := range []string{
		"Statistics of homefeed", "Training table", "ml.impressions", "device, 2026-10-08: rows with a match are 50% of the rows, and were 98% (limit 5%)",
		"Match rate of each partition, by day(time)", "device: from 50% to 98%; marked at 2026-10-08: 50%", "93.8%", "18,766", "This dataset", "4,321", "history.age",
	} {
		require.Contains(t, shown, want)
	}
	require.Regexp(t, `<bdi>history</bdi>.*\n.*>1\.\d+ s<`, got)
	alone := dataset(t, 20_000, same)
	alone.Against, alone.Partitions = nil, nil
	for i := range alone.Entries {
		alone.Entries[i].Partitions, alone.Entries[i].Keys = nil, nil
	}
	shown, _ = parse(t, datasetPage(t, alone))
	require.NotContains(t, shown, "Match rate of each partition")
	parse(t, datasetPage(t, &entries.Result{Dataset: "empty"}))
}

// same keeps names.
func same(name string) string {
	return name
}

func TestPagesAreGolden(t *testing.T) {
	for name, got := range map[string]string{
		"page": page(t, result(t, 60_000, 1, true, same)), "compared": page(t, compared(t, 20_000, same)), "labeled": page(t, labeled(compared(t, 20_000, same), same)), "dataset": datasetPage(t, dataset(t, 20_000, same)),
	} {
		path := filepath.Join("testdata", name+".html")
		if *rewrite {
			require.NoError(t, os.MkdirAll("testdata", 0o750))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "go test ./loader/statistics/htmlpage -rewrite, and look at it")
	}
}

// spec: stats-45
func TestPageOfAComparison(t *testing.T) {
	got := page(t, compared(t, 20_000, same))
	shown, links := parse(t, got)
	for _, want := range []string{
		"Compared with snapshot 4093385187436622843 of 2026-11-19 06:00:02 UTC, 10,000 rows", "price, 2026-10-08: nulls are 30% of the rows, and were 3%",
		"Columns that the base lacks, not compared: age", "without 3 earlier ones", "Histograms of price and of the base", "marked at 2026-10-08", "mean: 0.2 × its limit", "unit: 0 × its limit", "nulls: 13.5 × its limit",
	} {
		require.Contains(t, shown, want)
	}
	require.Equal(t, "c1", links[0])
	require.Equal(t, 1, strings.Count(got, `class="over"`))
	calm := compared(t, 20_000, same)
	calm.Against.Alarms = nil
	require.Contains(t, page(t, calm), "No change is beyond its limit.")
}

// parse reads a page as XML, and returns its texts. It fails if the page has elements or attributes that the template does not have, links
// to anything but itself, or anything that the content security policy would have to stop.
func parse(t *testing.T, text string) (shown string, links []string) {
	t.Helper()
	elements := strings.Fields(`html head meta title style body div h1 h2 h3 dl dt dd p section ul li a bdi b table thead tbody tr th td details summary figure figcaption
		svg desc rect text line path`)
	attributes := strings.Fields(`lang charset http-equiv content name class id href scope tabindex role aria-label open viewBox width height x y x1 y1 x2 y2 rx d`)
	d := xml.NewDecoder(strings.NewReader(text))
	ids, styles := map[string]bool{}, 0
	var texts strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains(elements, token.Name.Local) {
				require.Fail(t, "an element that the template does not have", token.Name.Local)
			}
			if token.Name.Local == "style" {
				styles++
			}
			for _, a := range token.Attr {
				if !slices.Contains(attributes, a.Name.Local) {
					require.Fail(t, "an attribute that the template does not have", "%s of %s", a.Name.Local, token.Name.Local)
				}
				switch a.Name.Local {
				case "href":
					link, inside := strings.CutPrefix(a.Value, "#")
					require.True(t, inside, a.Value)
					links = append(links, link)
				case "id":
					require.False(t, ids[a.Value], "ids are unique")
					ids[a.Value] = true
				}
			}
		case xml.CharData:
			texts.Write(token)
		case xml.EndElement:
		case xml.Directive:
			require.Equal(t, "DOCTYPE html", string(token))
		default:
			require.Fail(t, "comments and instructions are not written", "%T", token)
		}
	}
	require.Equal(t, 1, styles)
	for _, l := range links {
		require.True(t, ids[l], "%s is a place in the page", l)
	}
	return texts.String(), links
}

// spec: stats-41
func TestPageHasNoScriptsAndIsOneFile(t *testing.T) {
	got := page(t, result(t, 5000, 1, true, same))
	shown, links := parse(t, got)
	for _, want := range []string{"features.history", "8744736658442914487", "2026-11-26 06:00:02 UTC", "country", "CH", "embedding.norms", "some vectors are zero", "all values are null", "are NaN", "context"} {
		require.Contains(t, shown, want)
	}
	require.Greater(t, len(links), 11)
	require.Contains(t, got, `content="default-src &#39;none&#39;; style-src &#39;sha256-`)
	for _, without := range []string{"<script", "javascript:", "://", "url(", "@import"} {
		require.NotContains(t, strings.ToLower(got), without)
	}
}

// spec: stats-42
func TestHostileNamesAndValuesAreTextsOfThePage(t *testing.T) {
	for _, hostile := range []string{
		`"' onload="alert(1)`, `</script><script>alert(1)</script>`, `</style></title><base href="//e">`, `]]><![CDATA[`, `<!-- -->`, `<?xml?>`, `&amp;&#0;`, `{{.Style}}`,
		"a\x00b\x1b[31m\r\nc\u0085", "\u202eevil\u2066\u200f", "\xff\xfe\xc3(", "\ufffe\uffff", strings.Repeat("x", 10_000), strings.Repeat("漢", 10_000),
	} {
		r := result(t, 300, 1, true, func(name string) string { return hostile + name })
		r.Against = compared(t, 300, func(name string) string { return hostile + name }).Against
		labeled(r, func(name string) string { return hostile + name })
		shown, _ := parse(t, page(t, r))
		joined, _ := parse(t, datasetPage(t, dataset(t, 300, func(name string) string { return hostile + name })))
		shown += joined
		for _, wrong := range []string{"\x00", "\x1b", "\u202e", "\u2066", "\u200f", "\uffff"} {
			require.NotContains(t, shown, wrong)
		}
		require.Less(t, len(shown), 400_000)
	}
}

// Tables with 500 columns, some of them lists, give a page that a browser opens at once.
//
// spec: stats-43
func TestPagesOfManyColumnsAreSmall(t *testing.T) {
	r := result(t, 5000, 64, true, same)
	require.GreaterOrEqual(t, len(r.Columns), 500)
	got := page(t, r)
	require.Less(t, len(got), 5<<20)
	parse(t, got)
	t.Logf("%d columns and series: %d KiB", len(r.Columns), len(got)>>10)
}

// spec: stats-6
func TestPageWithoutValuesHasNone(t *testing.T) {
	got := page(t, result(t, 5000, 1, false, same))
	for _, value := range []string{"CH", "a long name", "Most frequent"} {
		require.NotContains(t, got, value)
	}
}

// A table without rows, and one without a snapshot, have a page.
func TestPageOfAnEmptyTable(t *testing.T) {
	shown, _ := parse(t, page(t, result(t, 0, 1, true, same)))
	require.Contains(t, shown, "There are no rows.")
	shown, _ = parse(t, page(t, &statistics.Result{Table: "t"}))
	require.Contains(t, shown, "Snapshotnone")
}
