package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
)

// Defaults of cat.
const (
	tableRows  = 20  // that a table shows unless --limit says otherwise
	tableWidth = 120 // where the terminal does not tell
)

// catFlags say what cat does with the rows.
type catFlags struct {
	format, output *string
	limit          *int64
	width          *int
}

func (p process) catCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "cat [DATASET]", Short: "Print the rows of a query", Args: atMostOne,
		Long: "Print the rows of a query: as a table, CSV, JSON lines, an Arrow or a Parquet file.\n\n" +
			"A query's wire is passed on: of wire indexed a staging table's columns come as one struct,\n" +
			"of grouped a row is a request. auto is plain.\n\n" +
			"With --config the rows are read in process, with --uri from a server. How many rows there\n" +
			"were, and how many of them each staging table matched, is said on standard error.",
		Example: "  penstock cat homefeed --config penstock.yaml --columns request_id,label --limit 5\n" +
			"  penstock cat homefeed --uri grpc://127.0.0.1:8815 --shard 0/4 --lanes 4 --format arrow --output part.arrow",
	}
	from, query := newSourceFlags(c), newQueryFlags(c)
	flags := catFlags{
		format: textFlag(c, "format,f", "FORMAT", strings.Join(formats(), ", ")+" (default: as FILE ends, else table)"),
		output: textFlag(c, "output,o", "FILE", "write FILE instead of standard output; a regular file appears, or is replaced, when it is whole"),
		limit:  c.Flags().Int64P("limit", "n", 0, "at most so many rows; 0 is all (default 20 for tables, else all)"),
		width:  c.Flags().Int("width", 0, "characters a line of a table; 0 is no limit (default: the terminal's, else 120)"),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := flags.settleFormat(); err != nil {
			return err
		}
		if *flags.limit < 0 || *flags.width < 0 {
			return usage("--limit and --width are numbers from 0 on")
		}
		if *flags.format == "table" && !c.Flags().Changed("limit") {
			*flags.limit = tableRows
		}
		if !c.Flags().Changed("width") {
			*flags.width = p.tableWidth()
		}
		text, err := p.json(query, args)
		if err != nil {
			return err
		}
		return p.asking(c, from, func(ctx context.Context, s *client) error {
			rows, err := s.Open(ctx, ofOneForm(text))
			if err != nil {
				return err
			}
			defer rows.Release()
			return p.writing(ctx, *flags.output, func(w io.Writer) error { return p.print(rows, w, flags) })
		})
	}
	return c
}

// settleFormat takes the form of the file's name where none was asked for, and refuses one
// that its name denies.
func (f catFlags) settleFormat() error {
	named := strings.TrimPrefix(filepath.Ext(*f.output), ".")
	if !slices.Contains(formats(), named) {
		named = ""
	}
	if *f.format == "" {
		*f.format = cmp.Or(named, "table")
	}
	switch {
	case !slices.Contains(formats(), *f.format):
		return unknownFormat(*f.format)
	case named != "" && named != *f.format:
		return usage("--output %s ends as a file of another form than --format %s: leave --format out, or name another file", *f.output, *f.format)
	}
	return nil
}

// wireOf is the wire that a query asks for, "" where it names none.
func wireOf(query []byte) string {
	var fields struct {
		Wire string `json:"wire"`
	}
	if err := json.Unmarshal(query, &fields); err != nil {
		return "" // what is wrong with it, the loader says
	}
	return fields.Wire
}

// ofOneForm asks for plain batches where each stream may choose its form: the rows are
// the same, and a file has one schema. Any other wire is passed on.
func ofOneForm(query []byte) []byte {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(query, &fields); err != nil || wireOf(query) != "auto" {
		return query
	}
	delete(fields, "wire")
	text, err := json.Marshal(fields)
	if err != nil {
		return query
	}
	return text
}

// tableWidth is how wide tables are unless --width says otherwise.
func (p process) tableWidth() int {
	if p.width > 0 {
		return p.width
	}
	if n, err := strconv.Atoi(p.orEnv("", "COLUMNS")); err == nil && n > 0 {
		return n
	}
	return tableWidth
}

// print writes rows up to the limit, and says on standard error how it went.
func (p process) print(rows *shards, w io.Writer, flags catFlags) error {
	out, err := newFormat(*flags.format, w, rows.schema, *flags.width)
	if err != nil {
		return err
	}
	left, more := *flags.limit, false
	written := int64(0)
	for rows.Next() {
		batch := rows.at.RecordBatch()
		if *flags.limit > 0 {
			if left == 0 {
				more = true
				break
			}
			if batch.NumRows() > left {
				more = true
				batch = batch.NewSlice(0, left)
				defer batch.Release()
			}
			left -= batch.NumRows()
		}
		if err := out.Write(batch); err != nil {
			return err
		}
		written += batch.NumRows()
		if more {
			break
		}
	}
	if rows.err != nil {
		return rows.err
	}
	if err := out.Close(); err != nil {
		return err
	}
	text := rowsText(written)
	if rows.grouped {
		text = fault.Count(written, "request")
	}
	if more {
		p.say("%s, and there are more; --limit 0 gives all\n", text)
		return nil
	}
	if rows.grouped {
		text += " of " + rowsText(rows.total.Rows)
	}
	p.say("%s%s\n", text, matchText(rows.total))
	return nil
}

func rowsText(n int64) string { return fault.Count(n, "row") }

// matchText says how many rows each staging table matched.
func matchText(r report) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Staging)) {
		c := r.Staging[name]
		fmt.Fprintf(&text, "; %s matched %d of %d", name, c.Matched, c.Rows)
	}
	return text.String()
}
