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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics"
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
func result(t *testing.T, rows, repeated int, values bool, name func(string, int) string) *statistics.Result {
	t.Helper()
	out := &statistics.Result{
		Version: 1, Table: name("features.history", 0), Snapshot: 8744736658442914487, Time: time.Date(2026, 11, 26, 6, 0, 2, 0, time.UTC),
		Rows: int64(rows), Files: 16, Bytes: 317 << 20, Sample: statistics.Sample{Rows: int64(rows) / 4, Rate: 0.25, QuantileError: 0.0112, DistinctError: stats.DistinctError},
		QuantileNames: stats.Quantiles, NotDescribed: []string{name("context", 0)},
	}
	rng := rand.New(rand.NewPCG(1, 2))
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
		summaries := part.Summarize(0, s.name, values)
		part.Release()
		for i := range repeated {
			for _, one := range summaries {
				one.Name = name(s.name, i) + strings.TrimPrefix(one.Name, s.name)
				out.Columns = append(out.Columns, one)
			}
		}
	}
	return out
}

func page(t *testing.T, r *statistics.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, htmlpage.Write(&b, r))
	return b.String()
}

// same keeps names.
func same(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, i)
}

func TestPageIsGolden(t *testing.T) {
	got := page(t, result(t, 60_000, 1, true, same))
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile("testdata/page.html", []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/page.html")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./loader/statistics/htmlpage -rewrite, and look at it")
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
		r := result(t, 300, 1, true, func(name string, _ int) string { return hostile + name })
		shown, _ := parse(t, page(t, r))
		for _, wrong := range []string{"\x00", "\x1b", "\u202e", "\u2066", "\u200f", "\uffff"} {
			require.NotContains(t, shown, wrong)
		}
		require.Less(t, len(shown), 200_000)
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
	require.Contains(t, shown, "The table has no rows.")
	shown, _ = parse(t, page(t, &statistics.Result{Table: "t"}))
	require.Contains(t, shown, "Snapshotnone")
}
