package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

func (p process) datasetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "datasets [DATASET]", Short: "List the datasets, or the columns of one", Args: atMostOne,
		Long: "List the datasets, or the columns of one.\n\n" +
			"The exit code is 1 if one of them cannot be read; the list says why.",
		Example: "  penstock datasets --config penstock.yaml\n" +
			"  penstock datasets homefeed --uri grpc://127.0.0.1:8815 --json",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print JSON: of each dataset name, rows, columns and staging tables, or its error")
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.asking(c, from, func(ctx context.Context, s *client) error {
			all, err := s.Datasets(ctx)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if all, err = datasetOf(all, args[0]); err != nil {
					return err
				}
			}
			switch {
			case *asJSON:
				err = p.printJSON(inJSON(all))
			case len(args) > 0:
				return p.columns(all[0])
			default:
				err = p.list(all)
			}
			return errors.Join(err, unreadable(all))
		})
	}
	return c
}

// datasetOf returns the one dataset of a name.
func datasetOf(all []listed, name string) ([]listed, error) {
	var names []string
	for _, d := range all {
		if d.name == name {
			return []listed{d}, nil
		}
		names = append(names, d.name)
	}
	return nil, dataset.Unknown(name, names)
}

// unreadable is the failure of datasets that were listed and cannot be read; nil if all can.
func unreadable(all []listed) error {
	var names []string
	kind := fault.Internal
	for _, d := range all {
		if d.err == nil {
			continue
		}
		if names = append(names, d.name); len(names) == 1 {
			kind = d.err.Kind
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(kind, "%d of %d datasets cannot be read: %s", len(names), len(all), strings.Join(names, ", "))
}

// datasetJSON is a dataset as scripts read it.
type datasetJSON struct {
	Name    string       `json:"name"`
	Rows    *int64       `json:"rows"` // null: not known before reading
	Columns []columnJSON `json:"columns"`
	Staging []string     `json:"staging"`
	Error   *errorJSON   `json:"error,omitempty"`
}

type columnJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

type errorJSON struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func inJSON(all []listed) []datasetJSON {
	out := []datasetJSON{}
	for _, d := range all {
		one := datasetJSON{Name: d.name, Columns: columnsJSON(d.schema), Staging: slices.Concat([]string{}, d.staging)}
		if d.rows >= 0 && d.err == nil {
			one.Rows = &d.rows
		}
		if d.err != nil {
			one.Error = &errorJSON{Kind: d.err.Kind.String(), Message: d.err.Error(), Remedy: d.err.Remedy}
		}
		out = append(out, one)
	}
	return out
}

// columnsJSON are the columns of a schema, none if it is nil.
func columnsJSON(schema *arrow.Schema) []columnJSON {
	out := []columnJSON{}
	if schema == nil {
		return out
	}
	for _, f := range schema.Fields() {
		out = append(out, columnJSON{Name: f.Name, Type: f.Type.String(), Nullable: f.Nullable})
	}
	return out
}

// printJSON prints a value, indented.
func (p process) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fault.New(fault.Internal, "write JSON: %w", err)
	}
	_, err = p.stdout.Write(append(text, '\n'))
	return err
}

// list prints the datasets. One that cannot be read is listed with the reason.
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
