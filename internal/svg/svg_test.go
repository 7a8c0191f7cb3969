package svg_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/svg"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again; look at them")

// charts returns one chart of each kind, all of whose texts are the given text.
func charts(text string) map[string]*svg.Canvas {
	bins := svg.Bins{Counts: []int64{3, 0, 12, 40, 22, 7, 1}, Below: 2, Above: 9}
	bare := svg.Bins{Counts: []int64{1, 4, 9, 30, 30, 12, 2}}
	return map[string]*svg.Canvas{
		"histogram": svg.Histogram{Title: text, Bins: bins, From: text, To: text + "!"}.Draw(),
		"pair":      svg.Pair{Title: text, First: bins, Second: bare, Names: [2]string{text, text}, From: text, To: text + "!"}.Draw(),
		"sparkline": svg.Sparkline(text, bins.Counts),
		"lines": svg.Lines{Title: text, X: []string{text, "2", "3", "4", text}, Zero: true, Series: []svg.Series{
			{Name: text, Values: []float64{0.9, 0.95, math.NaN(), 0.2, 0.9}, Marked: []int{3}},
			{Name: text, Values: []float64{0.5, 0.5, 0.25, 0.5, 0.5}},
		}, Label: svg.Percent}.Draw(),
		"grid": svg.Grid{
			Title: text, Desc: text, Values: [][]float64{{0.1, 0.3, math.NaN()}, {0, 0.6, 1}, {0.5, 0.75, 0}}, Left: text, Right: text, Top: text, Bottom: text, Zero: text,
			Levels: [4]svg.Level{{Name: text}, {Least: 0.25, Name: text}, {Least: 0.5, Name: text}, {Least: 0.75, Name: text}},
		}.Draw(),
		"gauge":  svg.Gauge{Title: text, From: -1, To: 1, Value: -0.995, Beyond: true}.Draw(),
		"shares": svg.Shares{Title: text, Of: []svg.Share{{Name: text, Of: 0.7}, {Name: "b", Of: 0.0123}}}.Draw(),
		"column": svg.Column(text, []svg.Captioned{{Caption: text}, {Caption: text, Picture: svg.Histogram{Title: text, Bins: bins, From: "0", To: "1"}.Draw()}}),
		"stack":  svg.Stack{Title: text, Of: []svg.Share{{Name: text, Of: 0.25}, {Name: "b", Of: math.NaN()}, {Name: "c"}, {Name: "d", Of: 0.5}, {Name: "e", Of: 0.5}}}.Draw(),
	}
}

func TestChartsAreGolden(t *testing.T) {
	for name, c := range charts("price") {
		path, got := filepath.Join("testdata", name+".svg"), c.File(svg.FileStyle)
		if *rewrite {
			require.NoError(t, os.MkdirAll("testdata", 0o750))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "%s differs: go test ./internal/svg -rewrite, and look at it", name)
		require.Contains(t, got, "<style>"+svg.FileStyle+"</style>")
		require.NotContains(t, c.Inline(), "<style>")
	}
}

// read parses a picture, and returns its texts. It fails unless the picture is well formed, has only the elements and attributes
// of charts, and begins with a title and a description.
func read(t *testing.T, picture string) (texts []string) {
	t.Helper()
	elements := map[string]string{
		"svg": "xmlns class viewBox width height role", "title": "", "desc": "", "style": "", "rect": "class x y width height rx",
		"text": "class x y", "line": "class x1 y1 x2 y2", "path": "class d", "g": "transform",
	}
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err, picture)
		switch token := token.(type) {
		case xml.StartElement:
			allowed, ok := elements[token.Name.Local]
			require.True(t, ok, token.Name.Local)
			for _, a := range token.Attr {
				require.Contains(t, strings.Fields(allowed), a.Name.Local)
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
			}
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.EndElement:
		default:
			require.Fail(t, "comments, instructions and directives are not drawn", "%T", token)
		}
	}
}

// Names of tables, columns and partitions cannot leave their texts, in files and in pages.
func TestHostileNamesAreTexts(t *testing.T) {
	for _, name := range []string{
		`"' onload="alert(1)`, `</script><script>alert(1)</script>`, `</style></title></desc></text></svg><b>`, `]]><![CDATA[`, `<!-- -->`, `<?xml?>`, `&amp;&#0;&quot;`,
		"a\x00b\x01\x1b[31m\r\n\tc\x7f\u0085", "\u202eevil\u2066\u200f\u061c\u2028", "\xff\xfe\xc3(", "\ufffe\uffff\ufdd0", strings.Repeat("x", 10_000), strings.Repeat("漢", 10_000), "",
	} {
		for kind, c := range charts(name) {
			for _, picture := range []string{c.File(svg.FileStyle), c.Inline()} {
				require.True(t, utf8.ValidString(picture), kind)
				require.Less(t, len(picture), 16_000, kind)
				shown := strings.Join(read(t, picture), "")
				for _, r := range shown {
					require.True(t, r == '\n' || unicode.IsGraphic(r), "%s shows %U", kind, r)
				}
				if name != "" {
					require.Contains(t, shown, strings.TrimSuffix(svg.Printable(name, 20), "…"), kind)
				}
			}
		}
	}
}

// All numbers give a picture.
func TestChartsOfUnusualNumbers(t *testing.T) {
	huge, inf := math.MaxFloat64, math.Inf(1)
	for _, b := range []svg.Bins{{}, {Counts: []int64{0, 0}}, {Counts: []int64{5}}, {Above: 7}, {Counts: []int64{math.MaxInt64 / 2, 1}}, {Counts: make([]int64, 1000), Below: 1}} {
		read(t, svg.Histogram{Title: "t", Bins: b}.Draw().Inline())
		read(t, svg.Pair{Title: "t", First: b}.Draw().Inline())
		read(t, svg.Sparkline("t", b.Counts).Inline())
	}
	for _, values := range [][]float64{nil, {}, {1}, {0, 0}, {-huge, huge}, {inf, math.NaN(), -inf}, {1, 2, 3, 4}} {
		l := svg.Lines{Title: "t", X: []string{"a", "b", "c"}, Series: []svg.Series{{Values: values, Marked: []int{-1, 0, 2, 9}}}}
		read(t, l.Draw().Inline())
		read(t, svg.Lines{Series: l.Series}.Draw().Inline())
	}
	for _, values := range [][][]float64{nil, {{}}, {{0}}, {{inf, -inf}, {-1, 2}}, make([][]float64, 128)} {
		read(t, svg.Grid{Values: values}.Draw().Inline())
	}
	for _, of := range []float64{math.NaN(), inf, -1, 0, 2} {
		read(t, svg.Shares{Of: []svg.Share{{Of: of}}}.Draw().Inline())
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		require.Equal(t, want, svg.Count(n))
	}
	require.Equal(t, []string{"12.3%", "100%", "0.0123%", "1350%"}, []string{svg.Percent(0.12345), svg.Percent(1), svg.Percent(0.000123), svg.Percent(13.5)})
	require.Equal(t, "ab…", svg.Printable("abc", 2))
	require.Equal(t, "abc", svg.Printable("abc", 3))
}
