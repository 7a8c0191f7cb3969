package warehouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	_ "modernc.org/sqlite" // the driver of the catalog's file

	"github.com/penstock/penstock/internal/scenario"
)

// Warehouse is a folder with a catalog.db of Iceberg tables. Each case has a separate catalog in
// it.
type Warehouse struct {
	Dir string
	db  *sql.DB
}

// New makes a warehouse in an empty folder.
func New(dir string) (*Warehouse, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	if _, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir}); err != nil {
		return nil, err
	}
	return &Warehouse{Dir: dir, db: db}, nil
}

// Close ends the connections to the catalog.
func (w *Warehouse) Close() error { return w.db.Close() }

// Written is a case whose tables are in a warehouse.
type Written struct {
	*scenario.Case                    // with the rows that reads of its tables return
	World          *scenario.World    // the same tables in memory, with the same files
	Catalog        string             // the name of its catalog
	Histories      map[string]History // by table
	columns        map[string]*columns
}

// Write writes the tables of a case, with a history that the seed decides. The
// caller releases the world.
func (w *Warehouse) Write(ctx context.Context, c *scenario.Case, seed uint64) (*Written, error) {
	out := &Written{
		Case: c.Clone(), World: scenario.NewWorld(), Catalog: fmt.Sprintf("%s-%d", c.Name, seed), Histories: map[string]History{}, columns: map[string]*columns{},
	}
	out.World.BatchRows = c.ScanRows
	for i, t := range out.tables() {
		if _, done := out.Histories[t.Name]; !done {
			if err := w.table(ctx, out, t, seed*16+uint64(i)); err != nil {
				out.World.Release()
				return nil, fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
	}
	if out.Histories[out.Training.Name].rewrites(slices.Concat(out.Dataset.Key, out.Dataset.Training.RequestLevel)) {
		out.Dataset.Training.RequestLevel = nil // one default has joined several requests into one
	}
	for i, t := range out.Staging { // several entries may have the same table
		for _, other := range out.Staging[:i] {
			if other.Name == t.Name {
				out.Staging[i] = other
			}
		}
	}
	return out, nil
}

// Folder returns the folder of a case's tables.
func (w *Warehouse) Folder(c *Written) Folder { return Folder{Dir: w.Dir, Catalog: c.Catalog} }

// Drop removes the tables of a case. Another case may then use the name of its catalog.
func (w *Warehouse) Drop(ctx context.Context, c *Written) error {
	_, err := w.db.ExecContext(ctx, `DELETE FROM iceberg_tables WHERE catalog_name = ?`, c.Catalog)
	return errors.Join(err, os.RemoveAll(filepath.Join(w.Dir, c.Catalog)))
}

// String returns the histories of a case's tables as text.
func (w *Written) String() string { return fmt.Sprintf("%+v", w.Histories) }

// tables returns the training table and all staging tables.
func (w *Written) tables() []*scenario.Table {
	all := []*scenario.Table{&w.Training}
	for i := range w.Staging {
		all = append(all, &w.Staging[i])
	}
	return all
}

// table makes a history for a table, writes the table, and makes the same table in memory.
func (w *Warehouse) table(ctx context.Context, out *Written, t *scenario.Table, seed uint64) error {
	original := (&scenario.Case{Training: *t}).Clone().Training
	h := NewHistory(seed, t, filtered(out.Case, t.Name)...)
	original.Commits, original.Specs = again(original.Commits, t.Commits), t.Specs
	made, commits, err := t.Parts()
	if err != nil {
		return err
	}
	defer release(commits)
	_, before, err := original.Parts()
	if err != nil {
		return err
	}
	defer release(before)
	writer, err := newTable(rand.New(rand.NewPCG(seed, 29)), filepath.Join(w.Dir, out.Catalog), newScript(seed), h, *t)
	if err != nil {
		return err
	}
	writer.types = rand.New(rand.NewPCG(seed, 31))
	if err := writer.create(); err != nil {
		return err
	}
	for i, parts := range commits {
		if err := writer.commit(i, parts, before[i]); err != nil {
			return fmt.Errorf("commit %d: %w", i, err)
		}
	}
	location, err := writer.finish()
	if err != nil {
		return err
	}
	out.Histories[t.Name], out.columns[t.Name] = h, writer.columns
	namespace, name, _ := strings.Cut(t.Name, ".")
	if _, err := w.db.ExecContext(ctx, `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) VALUES (?, ?, ?, ?, 'TABLE')`,
		out.Catalog, namespace, name, location); err != nil {
		return err
	}
	return out.World.Place(writer.seen(made), writer.Files)
}

// filtered returns the columns of a table that only filters name. Planning can forget these columns
// most easily.
func filtered(c *scenario.Case, table string) []string {
	always := c.ReadsAlways()[table]
	return slices.DeleteFunc(c.Reads()[table], func(name string) bool { return slices.Contains(always, name) })
}

// again divides the lines of commits in the same way as the lines of the commits in like.
func again(commits, like []scenario.Commit) []scenario.Commit {
	var lines []string
	for _, c := range commits {
		lines = append(lines, c.Lines...)
	}
	out := make([]scenario.Commit, len(like))
	for i, c := range like {
		out[i] = c
		out[i].Lines = lines[:len(c.Lines)]
		lines = lines[len(c.Lines):]
	}
	return out
}

func release(commits [][]scenario.Part) {
	for _, parts := range commits {
		for _, p := range parts {
			p.Rows.Release()
		}
	}
}
