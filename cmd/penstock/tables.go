package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
)

func tablesCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "tables [NAMESPACE|CATALOG]", Short: "List the tables of the catalogs", Args: cmdline.AtMostOne,
		Long: "List the tables of the catalogs, or of one catalog or namespace: rows, bytes and files of their main branch,\n" +
			"the time of its snapshot, how they are partitioned, and the datasets that read them. Only metadata is\n" +
			"read. Rows that delete files remove are counted as deletes, and are still among the rows.",
		Example: "  penstock tables --config penstock.yaml\n" +
			"  penstock tables features --uri grpc://127.0.0.1:8815 --json",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the tables as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			found, err := s.Tables(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if *asJSON {
				return p.printJSON(found)
			}
			return p.printTables(found)
		})
	}
	return c
}

// printTables prints a line per table, with the reason if it cannot be read.
func (p terminal) printTables(found []history.Description) error {
	lines := make([][]string, 0, len(found))
	for _, t := range found {
		at := ""
		if !t.Time.IsZero() {
			at = t.Time.Format(time.RFC3339)
		}
		state := strings.Join(t.Datasets, ", ")
		if t.Error != "" {
			state = t.Error
		}
		rows := countText(t.Rows)
		if t.Deletes != nil && *t.Deletes > 0 {
			rows += ", " + countText(t.Deletes) + " deletes"
		}
		lines = append(lines, []string{t.Table, rows, bytesText(t.Bytes), countText(t.Files), at, strings.Join(t.Partition, ", "), state})
	}
	return p.printTable([]string{"table", "rows", "bytes", "files", "time", "partitions", "datasets"}, lines)
}

// countText returns a count that may be unknown.
func countText(n *int64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatInt(*n, 10)
}

// bytesText returns a number of bytes that may be unknown.
func bytesText(n *int64) string {
	if n == nil {
		return "?"
	}
	return fault.Size(*n)
}
