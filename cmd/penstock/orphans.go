package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/orphans"
)

func orphansCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "orphans TABLE…", Short: "List, or remove, files of failed writes that no snapshot names",
		Long: "List the files in the folders of tables that Penstock wrote and that nothing in the tables' metadata\n" +
			"names: those of stages and commits that failed, and unfinished uploads. With --remove, they are\n" +
			"removed. Files of other writers are neither listed nor removed.\n\n" +
			"A file is written before a snapshot names it. So --older-than must be longer than the longest\n" +
			"write, and a failed stage whose outcome is uncertain is repeated before.",
		Example: "  penstock orphans features.history --config penstock.yaml\n" +
			"  penstock orphans features.history features.embedding --older-than 7d --remove --config penstock.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdline.Errorf("%s needs a table", c.CommandPath())
			}
			for i, table := range args {
				if slices.Contains(args[:i], table) {
					return cmdline.Errorf("table %s is given twice", table)
				}
			}
			return nil
		},
	}
	from := newChangeFlags(c)
	older := cmdline.Text(c, "older-than", "AGE", "leave out what was written later, such as 12h or 7d (default 3d, at least 1h)")
	remove := c.Flags().Bool("remove", false, "remove what is listed")
	asJSON := c.Flags().Bool("json", false, "print the orphan files as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		age, err := decode.ParseOrphanAge(*older)
		if err != nil {
			return cmdline.Errorf("--older-than %s", fault.As(err).Message)
		}
		request := decode.OrphansCommand{Tables: args, OlderThan: age, Remove: *remove, Progress: true}
		return p.change(c, from, args[0], func(ctx context.Context, s *client.Client, g *commandProgress) error {
			var found orphans.Paged
			err := s.Change(ctx, "orphans", request, &found, g.report)
			if err != nil && found == nil {
				return err
			}
			return cmp.Or(err, p.printOrphans(found, request, *asJSON))
		})
	}
	return c
}

// printOrphans prints the orphan files of tables, or how many were removed.
func (p process) printOrphans(found []orphans.TableOrphans, request decode.OrphansCommand, asJSON bool) error {
	if asJSON {
		return p.printJSON(found)
	}
	for _, f := range found {
		for _, folder := range f.NotSearched {
			p.note("table %s: %s is not searched: it lies outside of the table's folder, and other tables may write there\n", f.Table, folder)
		}
		if err := p.printTableOrphans(f, request.Remove); err != nil {
			return err
		}
		if f.TooYoung == 0 {
			continue
		}
		text := fmt.Sprintf("table %s: %s that no snapshot names, and too young to judge: a write that runs may need what is younger than %s\n",
			f.Table, fault.Count(f.TooYoung, "file"), ageText(time.Duration(request.OlderThan)))
		if _, err := io.WriteString(p.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// printTableOrphans prints the orphan files of a table, or how many were removed.
func (p process) printTableOrphans(f orphans.TableOrphans, removed bool) error {
	if removed {
		bytes := int64(0)
		for _, e := range f.Files[:f.Removed] {
			bytes += e.Size()
		}
		_, err := fmt.Fprintf(p.stdout, "table %s: removed %s, %s\n", f.Table, fault.Count(f.Removed, "orphan file"), fault.Size(bytes))
		return err
	}
	for _, e := range f.Files {
		what, size := e.Location, "size unknown"
		if e.Upload != "" {
			what = "unfinished upload of " + what
		}
		if e.Bytes != nil {
			size = fault.Size(*e.Bytes)
		}
		if _, err := fmt.Fprintf(p.stdout, "%s, %s, %s old\n", what, size, ageText(p.clock().Sub(e.Modified))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "table %s: %s, %s\n", f.Table, fault.Count(len(f.Files), "orphan file"), fault.Size(f.Bytes))
	return err
}

// ageText returns a duration in days and hours.
func ageText(age time.Duration) string {
	const day = 24 * time.Hour
	return fmt.Sprintf("%dd%dh", age/day, age%day/time.Hour)
}
