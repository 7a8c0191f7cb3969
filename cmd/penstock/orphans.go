package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
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
	config, progress := configFlag(c), progressFlag(c)
	older := cmdline.Text(c, "older-than", "AGE", "leave out what was written later, such as 12h or 7d (default 3d, at least 1h)")
	remove := c.Flags().Bool("remove", false, "remove what is listed")
	asJSON := c.Flags().Bool("json", false, "print the leftovers as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		age, err := leftoverAgeOf(*older)
		if err != nil {
			return err
		}
		search := orphans.Search{Owned: tablecommit.Owned, Before: p.clock().Add(-age)}
		g, err := p.progressOf(*progress, "orphans", args[0])
		if err != nil {
			return err
		}
		return g.end(p.withEngine(c.Context(), *config, func(ctx context.Context, e *engine) error {
			return p.orphans(ctx, e, leftoverCall{search: search, tables: args, remove: *remove, asJSON: *asJSON, progress: g})
		}))
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

// leftoverCall is what to do about leftovers.
type leftoverCall struct {
	search         orphans.Search
	tables         []string
	remove, asJSON bool
	progress       *commandProgress
}

// orphans finds the leftovers of all tables, and then lists or removes them.
func (p process) orphans(ctx context.Context, e *engine, call leftoverCall) error {
	ctx, entered := e.budget.Enter(ctx, "orphans")
	defer entered.Release()
	held, err := e.budget.Reserve("the leftovers of tables", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	found := make([]orphans.Leftovers, len(call.tables))
	for i, table := range call.tables {
		of, name, err := e.catalogOf(table)
		if err != nil {
			return err
		}
		call.progress.of(table)
		call.progress.step("search")
		if found[i], err = call.search.Find(ctx, searchable{of}, name, held); err != nil {
			return err
		}
		for _, folder := range found[i].Elsewhere {
			if call.asJSON {
				break // the result has them
			}
			p.note("table %s: %s is not searched: it lies outside of the table's folder, and other tables may write there\n", table, folder)
		}
	}
	removed := make([]int, len(found))
	for i := range found {
		if !call.remove {
			break
		}
		if removed[i], err = call.removeFrom(ctx, call.tables[i], found[i]); err != nil {
			break
		}
	}
	if failed := p.printLeftovers(call, found, removed); failed != nil && err == nil {
		err = failed
	}
	return err
}

// removeFrom removes the leftovers of a table, and returns how many are removed.
func (l leftoverCall) removeFrom(ctx context.Context, table string, found orphans.Leftovers) (int, error) {
	l.progress.of(table)
	l.progress.step("remove")
	counts := progressCounts{OfFiles: int64(len(found.Entries)), OfBytes: found.Bytes()}
	for i, e := range found.Entries {
		if err := orphans.Remove(ctx, found.Files, e); err != nil {
			return i, fault.Op(err, "remove leftovers of table %s", table)
		}
		counts.Files, counts.Bytes = counts.Files+1, counts.Bytes+max(e.Size, 0)
		l.progress.at(counts)
	}
	return len(found.Entries), nil
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
