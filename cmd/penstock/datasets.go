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

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

func datasetsCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "datasets [DATASET]", Short: "List the datasets, or the columns of one", Args: cmdline.AtMostOne,
		Long: "List the datasets, or the columns of one.\n\n" +
			"The exit code is 1 if one of them cannot be read; the list shows why.",
		Example: "  penstock datasets --config penstock.yaml\n" +
			"  penstock datasets homefeed --uri grpc://127.0.0.1:8815 --json",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print JSON: the name, rows, columns and staging tables of each dataset, or its error")
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
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
				err = p.printJSON(datasetsJSON(all))
			case len(args) > 0:
				err = p.printColumns(all[0])
				p.notePage(ctx, from, ui.PathOfDataset(args[0]))
				return err
			default:
				err = p.printDatasets(all)
				p.notePage(ctx, from, ui.PathOfDataset(""))
			}
			return errors.Join(err, unreadable(all))
		})
	}
	return c
}

// datasetOf returns a list that contains only the dataset with the given name.
func datasetOf(all []client.Dataset, name string) ([]client.Dataset, error) {
	var names []string
	for _, d := range all {
		if d.Name == name {
			return []client.Dataset{d}, nil
		}
		names = append(names, d.Name)
	}
	return nil, dataset.Unknown(name, names)
}

// unreadable returns an error that names the datasets that cannot be read, or nil if all datasets
// can be read.
func unreadable(all []client.Dataset) error {
	var names []string
	kind := fault.Internal
	for _, d := range all {
		if d.Err == nil {
			continue
		}
		if names = append(names, d.Name); len(names) == 1 {
			kind = d.Err.Kind
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(kind, "%d of %d datasets cannot be read: %s", len(names), len(all), strings.Join(names, ", "))
}

// datasetJSON is the JSON form of a dataset.
type datasetJSON struct {
	Name    string       `json:"name"`
	Rows    *int64       `json:"rows"` // null: unknown before reading
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

func datasetsJSON(all []client.Dataset) []datasetJSON {
	out := []datasetJSON{}
	for _, d := range all {
		one := datasetJSON{Name: d.Name, Columns: columnsJSON(d.Schema), Staging: slices.Concat([]string{}, d.Staging)}
		if d.Rows >= 0 && d.Err == nil {
			one.Rows = &d.Rows
		}
		if d.Err != nil {
			one.Error = &errorJSON{Kind: d.Err.Kind.String(), Message: d.Err.Error(), Remedy: d.Err.Remedy}
		}
		out = append(out, one)
	}
	return out
}

// columnsJSON returns the columns of a schema, or an empty list if it is nil.
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

// printJSON prints a value, indented. Snapshot ids in it are strings (`json:",string"` or
// dataset.SnapshotID), because many programs round integers above 2^53.
func (p terminal) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fault.New(fault.Internal, "write JSON: %w", err)
	}
	_, err = p.stdout.Write(append(text, '\n'))
	return err
}

// printDatasets prints a line for each dataset. If a dataset cannot be read, its line has the
// reason.
func (p terminal) printDatasets(all []client.Dataset) error {
	var lines [][]string
	for _, d := range all {
		rows, columns, staging := "?", "", strings.Join(d.Staging, ", ")
		if d.Rows >= 0 {
			rows = strconv.FormatInt(d.Rows, 10)
		}
		if d.Schema != nil {
			columns = strconv.Itoa(d.Schema.NumFields())
		}
		state := "ok"
		if d.Err != nil {
			state = d.Err.Kind.String() + ": " + d.Err.Error()
		}
		lines = append(lines, []string{d.Name, rows, columns, staging, state})
	}
	return p.printTable([]string{"dataset", "rows", "columns", "staging", "state"}, lines)
}

// printColumns prints the columns of a dataset.
func (p terminal) printColumns(d client.Dataset) error {
	if d.Err != nil {
		return d.Err
	}
	var lines [][]string
	for _, f := range d.Schema.Fields() {
		null := "not null"
		if f.Nullable {
			null = ""
		}
		lines = append(lines, []string{f.Name, f.Type.String(), null})
	}
	if err := p.printTable([]string{"column", "type", ""}, lines); err != nil {
		return err
	}
	rows := "the number of rows is unknown before reading"
	if d.Rows >= 0 {
		rows = rowsText(d.Rows)
	}
	p.note("%s\n", rows)
	return nil
}

// printTable prints a header and lines as aligned columns.
func (p terminal) printTable(head []string, lines [][]string) error {
	lines = slices.Insert(lines, 0, head)
	widths := make([]int, len(head))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(rowformat.Align(line, widths, make([]bool, len(head))))
	}
	_, err := io.WriteString(p.stdout, out.String())
	return err
}
