package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

func cacheCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "cache", Short: "List or drop what a server keeps for later streams",
		Long: "List or drop what a server keeps for later streams: decoded columns of row groups, and\n" +
			"build sides of staging tables. Neither command changes the rows of any stream.",
		Example: "  penstock cache ls --uri grpc://127.0.0.1:8815\n  penstock cache drop ml.impressions --uri grpc://127.0.0.1:8815",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(cacheListCommand(p), cacheDropCommand(p))
	return c
}

func cacheListCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "ls", Short: "List cached columns by table and file, and kept build sides", Args: cobra.NoArgs,
		Example: "  penstock cache ls --uri grpc://127.0.0.1:8815 --json",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			list, err := s.CacheList(ctx)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return p.printJSON(list)
			default:
				return p.printCache(list)
			}
		})
	}
	return c
}

func cacheDropCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "drop [TABLE]", Short: "Drop the cached columns of a table, in memory and on disk, or the whole cache", Args: cmdline.AtMostOne,
		Long: "Drop the decoded columns of a table, in memory and on disk, and the kept statistics of its files. Give the name of\n" +
			"the table, or its uuid if the catalog no longer has it. Without a table, drop everything that the server keeps.",
		Example: "  penstock cache drop --uri grpc://127.0.0.1:8815",
	}
	from := newSourceFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			table := ""
			if len(args) > 0 {
				if table = args[0]; table == "" { // such as that of a variable of the shell that is not set
					return fault.New(fault.Invalid, "the name of the table is empty").WithRemedy("leave it out to drop the whole cache")
				}
			}
			dropped, err := s.CacheDrop(ctx, table)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("dropped %d columns of row groups, %s with build sides and files\n", dropped.Columns, fault.Size(dropped.Bytes))
			return p.printResult(*asJSON, dropped, text)
		})
	}
	return c
}

// printCache prints the content of the cache: a table of files, and totals.
func (p terminal) printCache(list flight.CacheList) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TABLE\tFILE\tCOLUMNS\tBYTES\tHITS\tSECONDS")
	for _, f := range list.Files {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\n", f.Table, f.File, f.Columns, fault.Size(f.Bytes), f.Hits, strconv.FormatFloat(f.Seconds, 'f', 3, 64))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if list.Others > 0 {
		if _, err := fmt.Fprintf(p.stdout, "%s of tables that this client may not see\n", fault.Count(list.Others, "more file")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "columns: %s of %s\nbuild sides: %d, %s\n", fault.Size(list.Bytes), fault.Size(list.Limit), list.BuildSides.Count, fault.Size(list.BuildSides.Bytes))
	if err == nil && list.Disk.Limit > 0 {
		_, err = fmt.Fprintf(p.stdout, "on disk: %d columns of row groups, %s of %s\n", list.Disk.Columns, fault.Size(list.Disk.Bytes), fault.Size(list.Disk.Limit))
	}
	switch kept := list.Statistics; {
	case err != nil:
	case kept == nil:
		_, err = fmt.Fprintln(p.stdout, "statistics of files: another process uses them now")
	case kept.Limit > 0:
		_, err = fmt.Fprintf(p.stdout, "statistics of files: %d, %s of %s\n", kept.Files, fault.Size(kept.Bytes), fault.Size(kept.Limit))
	}
	return err
}
