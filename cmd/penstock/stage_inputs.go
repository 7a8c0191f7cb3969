package main

import (
	"context"
	"maps"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/inputs"
)

// fileFlags say which files to read, and how.
type fileFlags struct {
	files           []string
	schema          *string // the types of columns, as inputs.ParseTypes reads them
	noFolderColumns bool
}

// inputFlags adds the flags.
func (s *fileFlags) inputFlags(c *cobra.Command) {
	s.schema = cmdline.Text(c, "schema", "TYPES", "the types of columns of CSV files and of folders, as in 'id: long, price: decimal(9,2)' (default: the table's)")
	c.Flags().BoolVar(&s.noFolderColumns, "no-folder-columns", false, "do not read columns from the names of folders such as day=2026-01-01")
}

// rows returns the rows of the files. The caller releases them. The types of --schema replace those of o.
func (s *fileFlags) rows(ctx context.Context, o inputs.Options) (array.RecordReader, error) {
	given, err := inputs.ParseTypes(*s.schema)
	if err != nil {
		return nil, err
	}
	o.Threads, o.NoFolderColumns = runtime.GOMAXPROCS(0), s.noFolderColumns
	known := o.Types
	o.Types = func(ctx context.Context) (map[string]arrow.DataType, error) {
		out := map[string]arrow.DataType{}
		if known != nil {
			table, err := known(ctx)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, table)
		}
		maps.Copy(out, given)
		return out, nil
	}
	files, err := inputs.Find(ctx, s.files, o)
	if err != nil {
		return nil, err
	}
	return inputs.Open(ctx, files, o)
}
