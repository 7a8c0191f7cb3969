package main

import (
	"bufio"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
)

// format writes batches of one schema in some form.
type format interface {
	Write(batch arrow.RecordBatch) error
	// Close writes what is left. The format does not close what it writes to.
	Close() error
}

// formats names the forms of cat.
func formats() []string { return []string{"table", "csv", "jsonl", "arrow", "parquet"} }

// unknownFormat is the mistake of a format that there is not.
func unknownFormat(name string) error {
	meant := ""
	if near := fault.Nearest(name, formats()); near != "" {
		meant = "\n  did you mean --format " + near + "?"
	}
	return usage("--format %s: the formats are %s%s", name, strings.Join(formats(), ", "), meant)
}

// newFormat makes the format of a name. width is the terminal's, for tables.
func newFormat(name string, w io.Writer, schema *arrow.Schema, width int) (format, error) {
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
			return nil, fault.New(fault.Internal, "begin the Arrow file: %w", err)
		}
		return structs{file}, nil
	case "parquet":
		file, err := parquet.NewWriter(w, inStructs(schema))
		if err != nil {
			return nil, err
		}
		return structs{file}, nil
	}
	return nil, unknownFormat(name)
}

// csvFile writes comma-separated values as RFC 4180 has them, save that lines
// end with a line feed alone. A null is nothing at all, an empty string "".
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

// text adds a field, quoted where it must be.
func (c *csvFile) text(text string) {
	if text != "" && !strings.ContainsAny(text, "\",\r\n") && strings.TrimSpace(text) == text {
		c.line = append(c.line, text...)
		return
	}
	c.line = append(c.line, '"')
	c.line = append(c.line, strings.ReplaceAll(text, `"`, `""`)...)
	c.line = append(c.line, '"')
}

// Write implements format.
func (c *csvFile) Write(batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		for i, column := range batch.Columns() {
			c.separate(i)
			switch quoted, nested := traits(column.DataType()); {
			case column.IsNull(row):
				// A line of one null would be an empty line, which readers skip.
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

// Close implements format.
func (c *csvFile) Close() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.out.Flush()
}

// jsonLines writes one JSON object a line, fields in the schema's order.
type jsonLines struct {
	out   *bufio.Writer
	names [][]byte // "name": with what stands before it
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

// Write implements format.
func (j *jsonLines) Write(batch arrow.RecordBatch) error {
	for row := range int(batch.NumRows()) {
		j.line = j.line[:0]
		for i, column := range batch.Columns() {
			j.line = appendJSON(append(j.line, j.names[i]...), column, row)
		}
		if _, err := j.out.Write(append(j.line, '}', '\n')); err != nil {
			return err
		}
	}
	return j.out.Flush()
}

// Close implements format.
func (j *jsonLines) Close() error { return j.out.Flush() }
