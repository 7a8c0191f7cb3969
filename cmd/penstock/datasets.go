package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
)

func (p process) datasetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "datasets [DATASET]", Short: "List the datasets, or the columns of one", Args: cobra.MaximumNArgs(1),
		Example: "  penstock datasets --config penstock.yaml\n" +
			"  penstock datasets homefeed --uri grpc://127.0.0.1:8815",
	}
	from := newSourceFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.asking(c, from, func(ctx context.Context, s *client) error {
			all, err := s.Datasets(ctx)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return p.list(all)
			}
			var names []string
			for _, d := range all {
				if d.name == args[0] {
					return p.columns(d)
				}
				names = append(names, d.name)
			}
			e := fault.New(fault.NotFound, "there is no dataset %q", args[0])
			e.Faults = []fault.Field{{Field: "dataset", Message: e.Message, Nearest: fault.Nearest(args[0], names)}}
			return e
		})
	}
	return c
}

// list prints the datasets. One that cannot be read is listed with the reason;
// the command then still succeeds, since it listed them.
func (p process) list(all []listed) error {
	var lines [][]string
	for _, d := range all {
		rows, columns, staging := "?", "", strings.Join(d.staging, ", ")
		if d.rows >= 0 {
			rows = strconv.FormatInt(d.rows, 10)
		}
		if d.schema != nil {
			columns = strconv.Itoa(d.schema.NumFields())
		}
		state := "ok"
		if d.err != nil {
			state = d.err.Kind.String() + ": " + d.err.Error()
		}
		lines = append(lines, []string{d.name, rows, columns, staging, state})
	}
	return p.texts([]string{"dataset", "rows", "columns", "staging", "state"}, lines)
}

// columns prints the columns of one dataset.
func (p process) columns(d listed) error {
	if d.err != nil {
		return d.err
	}
	var lines [][]string
	for _, f := range d.schema.Fields() {
		null := "not null"
		if f.Nullable {
			null = ""
		}
		lines = append(lines, []string{f.Name, f.Type.String(), null})
	}
	if err := p.texts([]string{"column", "type", ""}, lines); err != nil {
		return err
	}
	rows := "rows are not known before reading"
	if d.rows >= 0 {
		rows = rowsText(d.rows)
	}
	p.say("%s\n", rows)
	return nil
}

// texts prints lines of text as aligned columns, as wide as they need to be.
func (p process) texts(head []string, lines [][]string) error {
	lines = slices.Insert(lines, 0, head)
	widths := make([]int, len(head))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(aligned(line, widths, make([]bool, len(head))))
	}
	_, err := io.WriteString(p.stdout, out.String())
	return err
}
