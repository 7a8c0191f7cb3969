// Package rowformat writes Arrow batches in the formats of penstock cat: a table for
// people, CSV, JSON lines, an Arrow file, and a Parquet file.
//
// A value has the same text in CSV, JSON lines and tables. Whole numbers and decimals keep all of
// their digits. A float has the fewest digits that parse to the same float, but tables round it to
// six digits. The text of a timestamp ends with Z only if its type has a time zone. UUIDs have
// their usual form, and other binary values are base64. Only tables shorten long values and leave
// out columns.
package rowformat

import (
	"bufio"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
)

// Writer writes batches of one schema in some format.
type Writer interface {
	Write(batch arrow.RecordBatch) error
	// Close writes buffered rows. It does not close the underlying writer.
	Close() error
}

// Names lists the formats.
func Names() []string { return []string{"table", "csv", "jsonl", "arrow", "parquet"} }

// New returns a writer that writes a format to w. width is the maximum number of characters in a
// line of a table; 0 means no limit. Categories are written as plain texts.
func New(name string, w io.Writer, schema *arrow.Schema, width int) (Writer, error) {
	if plain := withTexts(schema); plain != schema {
		of, err := New(name, w, plain, width)
		if err != nil {
			return nil, err
		}
		return texts{of, plain}, nil
	}
	switch name {
	case "table":
		return newTable(w, schema, width), nil
	case "csv":
		return newCSV(w, schema), nil
	case "jsonl":
		return newJSONLines(w, schema), nil
	case "arrow":
		file, err := ipc.NewFileWriter(w, ipc.WithSchema(inStructs(schema)))
		if err != nil {
			return nil, fault.New(fault.Internal, "write the Arrow file: %w", err)
		}
		return structs{file}, nil
	case "parquet":
		file, err := parquet.NewWriter(w, inStructs(schema))
		if err != nil {
			return nil, err
		}
		return structs{file}, nil
	}
	return nil, fault.InvalidField("format", "%q is not one of %s", name, strings.Join(Names(), ", "))
}

// csvFile writes comma-separated values as in RFC 4180, except that lines end with a line feed
// alone. A null is written as an empty field, and an empty string as two quotes.
type csvFile struct {
	out  *bufio.Writer
	line []byte
}

func newCSV(w io.Writer, schema *arrow.Schema) *csvFile {
	c := &csvFile{out: bufio.NewWriter(w)}
	for i, f := range schema.Fields() {
		c.separate(i)
		c.text(f.Name)
	}
	c.line = append(c.line, '\n')
	return c
}

func (c *csvFile) separate(i int) {
	if i > 0 {
		c.line = append(c.line, ',')
	}
}

// text adds a field, quoted if necessary.
func (c *csvFile) text(text string) {
	if text != "" && !strings.ContainsAny(text, "\",\r\n") && strings.TrimSpace(text) == text {
		c.line = append(c.line, text...)
		return
	}
	c.line = append(c.line, '"')
	c.line = append(c.line, strings.ReplaceAll(text, `"`, `""`)...)
	c.line = append(c.line, '"')
}

// Write implements Writer.
func (c *csvFile) Write(batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		for i, column := range batch.Columns() {
			c.separate(i)
			switch quoted, nested := traits(column.DataType()); {
			case column.IsNull(row):
				// If the only column of a row is null, the line would be empty, and readers skip
				// empty lines.
				if batch.NumCols() == 1 {
					c.text("")
				}
			case quoted || nested:
				c.text(valueText(column, row))
			default:
				c.line = append(c.line, strings.Trim(valueText(column, row), `"`)...)
			}
		}
		c.line = append(c.line, '\n')
		if err := c.flush(); err != nil {
			return err
		}
	}
	return c.out.Flush()
}

func (c *csvFile) flush() error {
	_, err := c.out.Write(c.line)
	c.line = c.line[:0]
	return err
}

// Close implements Writer.
func (c *csvFile) Close() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.out.Flush()
}

// jsonLines writes one JSON object per line. The fields of an object have the order of the schema.
type jsonLines struct {
	out   *bufio.Writer
	names [][]byte // for each column, a { or a comma, and then "name":
	line  []byte
}

func newJSONLines(w io.Writer, schema *arrow.Schema) *jsonLines {
	j := &jsonLines{out: bufio.NewWriter(w)}
	for i, f := range schema.Fields() {
		name := []byte{','}
		if i == 0 {
			name[0] = '{'
		}
		j.names = append(j.names, append(appendString(name, f.Name), ':'))
	}
	return j
}

// Write implements Writer.
func (j *jsonLines) Write(batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		j.line = j.line[:0]
		for i, column := range batch.Columns() {
			j.line = AppendJSON(append(j.line, j.names[i]...), column, row)
		}
		if _, err := j.out.Write(append(j.line, '}', '\n')); err != nil {
			return err
		}
	}
	return j.out.Flush()
}

// Close implements Writer.
func (j *jsonLines) Close() error { return j.out.Flush() }
