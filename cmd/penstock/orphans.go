package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/orphans"
)

// Ages of leftovers. A file is written before a snapshot names it, so that one that is younger
// than the longest write may be needed.
const (
	day          = 24 * time.Hour
	leftoverAge  = 3 * day
	youngestLeft = time.Hour
)

func (p process) orphansCommand() *cobra.Command {
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
	config := configFlag(c)
	older := cmdline.Text(c, "older-than", "AGE", "leave out what was written later, such as 12h or 7d (default 3d, at least 1h)")
	remove := c.Flags().Bool("remove", false, "remove what is listed")
	c.RunE = func(c *cobra.Command, args []string) error {
		age, err := leftoverAgeOf(*older)
		if err != nil {
			return err
		}
		search := orphans.Search{Owned: tablecommit.Owned, Before: p.clock().Add(-age)}
		return p.withEngine(c.Context(), *config, func(ctx context.Context, e *engine) error {
			return p.orphans(ctx, e, search, args, *remove)
		})
	}
	return c
}

// leftoverAgeOf parses an age: a number of days, or a duration such as 12h.
func leftoverAgeOf(text string) (time.Duration, error) {
	if text == "" {
		return leftoverAge, nil
	}
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		age = time.Duration(n) * day //nolint:gosec // at most 65535
	}
	if err != nil || age < youngestLeft {
		return 0, cmdline.Errorf("--older-than %q is not an age of at least 1h, such as 12h or 7d", text)
	}
	return age, nil
}

// orphans finds the leftovers of all tables, and then lists or removes them.
func (p process) orphans(ctx context.Context, e *engine, search orphans.Search, tables []string, remove bool) error {
	ctx, entered := e.budget.Enter(ctx, "orphans")
	defer entered.Release()
	held, err := e.budget.Reserve("the leftovers of tables", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	found := make([]orphans.Leftovers, len(tables))
	for i, table := range tables {
		of, name, err := e.catalogOf(table)
		if err != nil {
			return err
		}
		if found[i], err = search.Find(ctx, searchable{of}, name, held); err != nil {
			return err
		}
		for _, folder := range found[i].Elsewhere {
			p.note("table %s: %s is not searched: it lies outside of the table's folder, and other tables may write there\n", table, folder)
		}
	}
	for i, table := range tables {
		if remove {
			err = p.removeLeftovers(ctx, table, found[i])
		} else {
			err = p.listLeftovers(table, found[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listLeftovers prints the leftovers of a table.
func (p process) listLeftovers(table string, found orphans.Leftovers) error {
	for _, e := range found.Entries {
		what := e.Location
		if e.Upload != "" {
			what = "unfinished upload of " + what
		}
		size := "size unknown"
		if e.Size != store.SizeUnknown {
			size = fmt.Sprintf("%d bytes", e.Size)
		}
		if _, err := fmt.Fprintf(p.stdout, "%s, %s, %s old\n", what, size, ageText(p.clock().Sub(e.Modified))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "table %s: %s, %d bytes\n", table, fault.Count(len(found.Entries), "leftover"), found.Bytes())
	return err
}

// ageText returns a duration in days and hours.
func ageText(age time.Duration) string {
	return fmt.Sprintf("%dd%dh", age/day, age%day/time.Hour)
}

// removeLeftovers removes the leftovers of a table. It prints what was removed after a failure too.
func (p process) removeLeftovers(ctx context.Context, table string, found orphans.Leftovers) error {
	last, files, bytes := p.clock(), 0, int64(0)
	var failed error
	for _, e := range found.Entries {
		if err := orphans.Remove(ctx, found.Files, e); err != nil {
			failed = fault.Op(err, "remove leftovers of table %s", table)
			break
		}
		files, bytes = files+1, bytes+max(e.Size, 0)
		if now := p.clock(); now.Sub(last) >= progressEvery {
			last = now
			p.note("table %s: %d of %s removed, %d bytes\n", table, files, fault.Count(len(found.Entries), "leftover"), bytes)
		}
	}
	_, err := fmt.Fprintf(p.stdout, "table %s: removed %s, %d bytes\n", table, fault.Count(files, "leftover"), bytes)
	if failed != nil {
		return failed
	}
	return err
}

// searchable is a catalog in whose tables leftovers are looked for.
type searchable struct{ *icebergcat.Catalog }

// Folder implements orphans.SearchedTables.
func (s searchable) Folder(ctx context.Context, table string) (orphans.TableFolder, error) {
	state, err := s.State(ctx, table, "")
	if err != nil {
		return orphans.TableFolder{}, err
	}
	out := orphans.TableFolder{UUID: state.Table.Pin.UUID, Location: strings.TrimRight(state.Table.Location, "/")}
	for _, property := range []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"} {
		if folder := state.Properties[property]; folder != "" && !strings.HasPrefix(folder+"/", out.Location+"/") && !slices.Contains(out.Elsewhere, folder) {
			out.Elsewhere = append(out.Elsewhere, folder)
		}
	}
	return out, nil
}

// Files implements orphans.SearchedTables.
func (s searchable) Files(ctx context.Context, table, folder string) (orphans.Remover, error) {
	files, err := s.FileStore(ctx, table, folder)
	if err != nil {
		return nil, err
	}
	return files, nil
}
