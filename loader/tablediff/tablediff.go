// Package tablediff compares two snapshots of a table: their files, partitions and columns, and the
// keys of the rows of the files that differ.
//
// The rows of the files that differ are sorted by key in bounded memory (extsort), so that the rows of
// a key before and after are next to each other. If both snapshots have a file with the same deletes,
// the file has the same rows in both. Only the keys of such a file are read, so that a key that it has
// counts neither as added nor as gone. If its partition shows that it has no key of the files that
// differ, it is not opened.
//
// The package does not depend on the kinds of catalogs and storage: the caller passes functions that
// read them.
package tablediff

import (
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Tables has the tables to compare. A catalog.Catalog implements it.
type Tables interface {
	Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error)
	At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error)
	Files(ctx context.Context, t *catalog.Table, columns []int, bounds []int) ([]catalog.File, error)
}

// Options configure a Comparer. All fields are required.
type Options struct {
	Tables Tables
	// Read reads columns of files, without deleted rows.
	Read func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error)
	Rows datafile.Options // memory and local disk to sort rows with
}

// Comparer compares snapshots. It is safe for concurrent use.
type Comparer struct{ options Options }

// New returns a Comparer.
func New(o Options) *Comparer {
	o.Rows = o.Rows.Defaults()
	return &Comparer{options: o}
}

// None is the text of Request.From that stands for no snapshot.
const None = "none"

// Request is a comparison of two snapshots of a table.
type Request struct {
	// History has the snapshots of the table. Its Name is the name of the table.
	History *history.Table
	// From and To are ids of snapshots, or names of branches and tags. To is main if it is "". From
	// is the parent of To's snapshot if it is "", and a table without rows if it is None.
	From, To string
	// Key has the names of the key's columns. If it is empty, the key is the one that the table
	// records, followed by the columns of its sort order. A table that records no key has the key
	// UsualKey if it has these columns, or else the columns of its buckets or of its sort order.
	Key, UsualKey []string
	// OnlyFiles compares only files and columns, and reads no rows.
	OnlyFiles bool
	// Progress is called from time to time with the number of rows read so far and the number of
	// all rows to read; it may be nil.
	Progress func(read, all int64)
}

// Result describes what changed from one snapshot to another, as JSON.
type Result struct {
	Table string `json:"table"`
	From  State  `json:"from"`
	To    State  `json:"to"`
	// Columns is nil if there is no earlier snapshot.
	Columns *ColumnChanges `json:"columns,omitempty"`
	Files   FileChanges    `json:"files"`
	// Partitions are the partitions of the files that differ, ordered by their texts. If there are
	// more than maxPartitions, MorePartitions is the number of partitions that are left out.
	Partitions     []PartitionChange `json:"partitions"`
	MorePartitions int               `json:"more_partitions,omitempty"`
	// Keys is nil if no row was read: the request had OnlyFiles, or the key is unknown.
	Keys *KeyChanges `json:"keys,omitempty"`
}

// State counts the files of a snapshot.
type State struct {
	Snapshot int64     `json:"snapshot,omitempty,string"` // 0: no snapshot
	Time     time.Time `json:"time,omitzero"`
	// Rows counts the rows of all data files. Deletes is the number of rows and values in delete
	// files; Rows includes the rows that they delete.
	Rows    int64 `json:"rows"`
	Deletes int64 `json:"deletes"`
	Bytes   int64 `json:"bytes"` // of data files
	Files   int   `json:"files"` // data files
}

// comparing is one comparison.
type comparing struct {
	Options
	request Request
	// before and after are the table at the two snapshots, both with the columns of after. before
	// is nil if there is no earlier snapshot.
	before, after *catalog.Table
	both          []catalog.Field // the top-level columns that both snapshots have, as defined in after
	key, values   []catalog.Field // columns of both: the key columns, and the columns to compare
	notCompared   []string        // columns whose types cannot be compared
	result        Result
}

// Compare compares two snapshots. Errors: NotFound for a snapshot, branch or tag that the table
// does not have, Expired if the parent of To's snapshot no longer exists, Invalid for a key that
// the table does not have, Exhausted if memory or local disk is insufficient, and the errors of the
// catalog and of reading files.
func (c *Comparer) Compare(ctx context.Context, request Request) (*Result, error) {
	r := &comparing{Options: c.options, request: request}
	r.result = Result{Table: request.History.Name, Partitions: []PartitionChange{}}
	err := r.compare(ctx)
	if err != nil {
		return nil, fault.Op(err, "compare snapshots of table %s", request.History.Name)
	}
	return &r.result, nil
}

func (c *comparing) compare(ctx context.Context) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	if !c.request.OnlyFiles {
		if err := c.findKey(); err != nil {
			return err
		}
	}
	columns := catalog.FieldIDs(slices.Concat(c.key, c.values))
	var before []catalog.File
	if c.before != nil && c.before.HasSnapshot() {
		var err error
		if before, err = c.Tables.Files(ctx, c.before, columns, nil); err != nil {
			return err
		}
	}
	after, err := c.Tables.Files(ctx, c.after, columns, nil)
	if err != nil {
		return err
	}
	c.result.From, c.result.To = c.state(c.before, before), c.state(c.after, after)
	differ := c.compareFiles(before, after)
	if len(c.key) == 0 {
		return nil
	}
	return c.compareRows(ctx, differ, columns)
}

// open pins both snapshots, and compares their columns.
func (c *comparing) open(ctx context.Context) (err error) {
	name := c.request.History.Name
	if c.after, err = c.Tables.Table(ctx, name, c.request.History.Ref(c.request.To)); err != nil {
		return err
	}
	c.both = slices.Clone(c.after.Fields)
	if c.request.From == None {
		return nil
	}
	from, err := c.from()
	if err != nil || from == (dataset.Ref{}) {
		return err
	}
	before, err := c.Tables.Table(ctx, name, from)
	if err != nil {
		return err
	}
	c.result.Columns = compareColumns(before, c.after)
	if before.Pin.Snapshot == dataset.NoSnapshot {
		return nil
	}
	pin := c.after.Pin
	pin.Snapshot = before.Pin.Snapshot
	c.both = slices.DeleteFunc(c.both, func(f catalog.Field) bool {
		return !slices.ContainsFunc(before.Fields, func(old catalog.Field) bool { return old.ID == f.ID })
	})
	c.before, err = c.Tables.At(ctx, name, pin)
	return err
}

// from returns the Ref of From. It is the zero Ref if From is "" and the snapshot of To has no
// parent.
func (c *comparing) from() (dataset.Ref, error) {
	if c.request.From != "" {
		return c.request.History.Ref(c.request.From), nil
	}
	all, to := c.request.History.Snapshots, c.after.Pin.Snapshot
	i := slices.IndexFunc(all, func(s history.Snapshot) bool { return s.ID == to })
	if i < 0 || all[i].Parent == 0 {
		return dataset.Ref{}, nil
	}
	parent := all[i].Parent
	if !slices.ContainsFunc(all, func(s history.Snapshot) bool { return s.ID == parent }) {
		return dataset.Ref{}, fault.New(fault.Expired, "snapshot %d, from which snapshot %d was made, no longer exists", parent, to).In(c.after.Name, "").
			WithRemedy("name the snapshot to compare with: penstock log lists those that the table has; none compares with an empty table")
	}
	return dataset.Ref{Snapshot: parent}, nil
}

// state counts the files of a table at a snapshot.
func (c *comparing) state(t *catalog.Table, files []catalog.File) State {
	var out State
	if t == nil || !t.HasSnapshot() {
		return out
	}
	out.Snapshot = t.Pin.Snapshot
	out.Time = c.request.History.Time(out.Snapshot)
	seen := map[deleteID]bool{}
	for _, f := range files {
		out.Rows, out.Bytes, out.Files = out.Rows+f.Rows, out.Bytes+f.Bytes, out.Files+1
		for _, d := range f.Deletes.All(f.Sequence) {
			if id := (deleteID{d.Location, d.Offset}); !seen[id] {
				seen[id] = true
				out.Deletes += d.Rows
			}
		}
	}
	return out
}
