package rowformat

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Widths of a table's cells, in characters.
const (
	maxCell = 48 // the maximum width of a cell, even if the terminal has room for more
	minCell = 8  // columns are left out before cells become narrower than this
	between = 2  // spaces between columns
)

// namedColumns is how many of the omitted columns are named at most.
const namedColumns = 11

// layoutRows is the number of rows at the beginning that determine the widths of the columns.
// Values in later rows are cut to these widths.
const layoutRows = 1000

// table writes aligned columns. Numbers are flush right, nulls are written as null, strings that
// could be misread are quoted, and long values are cut and end with an ellipsis. Columns that do
// not fit are left out, and their names are written at the end.
type table struct {
	out    *bufio.Writer
	schema *arrow.Schema
	limit  int        // characters per line; 0: no limit
	kept   [][]string // the first rows, until the widths are known
	widths []int      // the widths of the columns that are shown; nil until they are known
	right  []bool     // for each column, whether its cells are flush right
	fixed  []bool     // for each column, whether its values are never cut
}

func newTable(w io.Writer, schema *arrow.Schema, width int) *table {
	t := &table{out: bufio.NewWriter(w), schema: schema, limit: width}
	for _, f := range schema.Fields() {
		t.right = append(t.right, isNumber(f.Type))
		t.fixed = append(t.fixed, !isCuttable(f.Type))
	}
	return t
}

// Write implements Writer.
func (t *table) Write(batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		cells := make([]string, batch.NumCols())
		for i, column := range batch.Columns() {
			cells[i] = cell(column, row)
		}
		if t.widths == nil {
			if t.kept = append(t.kept, cells); len(t.kept) < layoutRows {
				continue
			}
			t.layOut()
			continue
		}
		t.row(cells)
	}
	return t.out.Flush()
}

// Close implements Writer.
func (t *table) Close() error {
	if t.widths == nil {
		t.layOut()
	}
	if hidden := t.schema.Fields()[len(t.widths):]; len(hidden) > 0 {
		names := make([]string, min(len(hidden), namedColumns))
		for i := range names {
			names[i] = escaped(hidden[i].Name)
		}
		more := ""
		if left := len(hidden) - len(names); left > 0 {
			more = fmt.Sprintf(", … and %d more", left)
		}
		t.out.WriteString("not shown: " + strings.Join(names, ", ") + more + "\n") //nolint:errcheck // bufio keeps the error for Flush
	}
	return t.out.Flush()
}

// layOut determines the widths, and writes the header and the kept rows.
func (t *table) layOut() {
	widths := make([]int, t.schema.NumFields())
	names := make([]string, len(widths))
	for i, f := range t.schema.Fields() {
		names[i] = escaped(f.Name)
		widths[i] = utf8.RuneCountInString(names[i])
		for _, row := range t.kept {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	t.widths = fit(widths, t.fixed, t.limit)
	t.row(names)
	rules := make([]string, len(t.widths))
	for i, width := range t.widths {
		rules[i] = strings.Repeat("─", width)
	}
	t.row(rules)
	for _, row := range t.kept {
		t.row(row)
	}
	t.kept = nil
}

// fit returns the widths of the columns that are shown, so that a line has at most limit
// characters. It narrows the widest columns first. If narrowing is not enough, it leaves out
// columns at the end, but never the first column. Fixed columns keep their width.
func fit(widths []int, fixed []bool, limit int) []int {
	for shown := len(widths); ; shown-- {
		out := slices.Clone(widths[:shown])
		for i := range out {
			if !fixed[i] {
				out[i] = min(out[i], maxCell)
			}
		}
		if limit == 0 || shown <= 1 || narrow(out, fixed, limit) {
			return out
		}
	}
}

// narrow shrinks the widest columns until the line fits, and reports whether it does.
func narrow(widths []int, fixed []bool, limit int) bool {
	for total(widths) > limit {
		widest := -1
		for i := range widths {
			if !fixed[i] && widths[i] > minCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

func total(widths []int) int {
	sum := between * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// row writes one line.
func (t *table) row(cells []string) {
	cells = slices.Clone(cells[:len(t.widths)])
	for i, width := range t.widths {
		if !t.fixed[i] {
			cells[i] = shortened(cells[i], width)
		}
	}
	t.out.WriteString(Align(cells, t.widths, t.right)) //nolint:errcheck // bufio keeps the error for Flush
}

// Align returns a line of cells that are padded to the given widths, either flush right or flush
// left. Cells that are longer than their width are not cut.
func Align(cells []string, widths []int, right []bool) string {
	var line strings.Builder
	for i, text := range cells {
		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
		if i > 0 {
			line.WriteString(strings.Repeat(" ", between))
		}
		if right[i] {
			line.WriteString(pad + text)
		} else {
			line.WriteString(text + pad)
		}
	}
	return strings.TrimRight(line.String(), " ") + "\n"
}

// shortened cuts a text that is longer than width, so that it has width characters together with an
// ellipsis.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	for i := range text {
		if width--; width == 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// cell renders a value for a table.
func cell(column arrow.Array, i int) string {
	if column.IsNull(i) {
		return "null"
	}
	switch a := column.(type) {
	case *array.Float32:
		return digits(float64(a.Value(i)), 32)
	case *array.Float64:
		return digits(a.Value(i), 64)
	}
	text := strings.Clone(valueText(column, i)) // the table keeps cells for longer than their batch is valid
	if quoted, nested := traits(column.DataType()); !quoted || nested {
		return text
	}
	if text == "" || text == "null" || strings.TrimSpace(text) != text {
		return strconv.Quote(text)
	}
	return escaped(text)
}

// digits renders a float with at most six significant digits.
func digits(v float64, bits int) string {
	const significant = 6
	short := strconv.FormatFloat(v, 'g', significant, bits)
	if exact := strconv.FormatFloat(v, 'g', -1, bits); len(exact) < len(short) {
		return exact
	}
	return short
}

// escaped quotes a text that contains characters that would break the lines of a table.
func escaped(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
