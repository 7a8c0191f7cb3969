package stage

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
)

// DatasetReader describes how a dataset of the server reads the staged table.
type DatasetReader struct {
	Dataset  string // "" if the caller may not know its name
	Entry    string // the entry that joins the table; "": the table is the training table, or Dataset is ""
	Training string // the training table, as the dataset names it
	// Key has the columns by which the dataset joins the table. It is empty if the table is the training table.
	Key []dataset.KeyPair
	// Unique is true if the dataset fails if a key has several rows. Rows of a key that differ in
	// the column Time are allowed, unless Time is "".
	Unique bool
	Time   string
	// Aligned is true if the dataset joins each training partition to only one partition of the
	// table. In that case, several partitions may have a row with the same key.
	Aligned bool
}

// String returns the name of the dataset for errors.
func (r DatasetReader) String() string {
	if r.Dataset == "" {
		return "a dataset of the server"
	}
	return "dataset " + r.Dataset
}

// checkReaders checks that the types of the columns by which datasets join the table can be
// compared with the types of the training tables' columns. Training tables that do not exist are
// skipped.
func (s *Stager) checkReaders(ctx context.Context, readers []DatasetReader, t *datafile.Target) error {
	loaded := map[string]*catalog.Table{}
	for _, r := range readers {
		if len(r.Key) == 0 {
			continue
		}
		training, known := loaded[r.Training]
		if !known {
			var err error
			if training, err = s.trainingOf(ctx, r); err != nil {
				return err
			}
			loaded[r.Training] = training
		}
		if training == nil {
			continue
		}
		for _, pair := range r.Key {
			if err := r.equals(t, training, pair); err != nil {
				return err
			}
		}
	}
	return nil
}

// trainingOf returns the training table of a dataset, or nil if it does not exist.
func (s *Stager) trainingOf(ctx context.Context, r DatasetReader) (*catalog.Table, error) {
	tables, name, err := s.options.Route(r.Training)
	var state *commit.TableState
	if err == nil {
		state, err = tables.State(ctx, name, commit.Main)
	}
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, nil //nolint:nilnil // there is no table, as the function defines it
	case err != nil:
		return nil, fault.Op(err, "read the key of the training table of %s", r)
	}
	return state.Table, nil
}

// checkAdded checks that datasets can be read after the target's new columns are added to the table.
func (c *staging) checkAdded(ctx context.Context, check func(context.Context, *catalog.Table, []catalog.Field) error) error {
	if check == nil || c.creates != nil || len(c.target.Added) == 0 {
		return nil
	}
	rows, err := conformed(c.target)
	if err != nil {
		return err
	}
	added := make([]catalog.Field, len(c.target.Added))
	for i, column := range c.target.Added {
		added[i] = catalog.Field{ID: column.ID, Name: column.Name, Type: rows.Field(columnOf(c.target, column.Name)).Type}
	}
	return check(ctx, c.target.State.Table, added)
}

// equals checks that the type of a key column can equal that of the training table's column.
func (r DatasetReader) equals(t *datafile.Target, training *catalog.Table, pair dataset.KeyPair) error {
	at := columnOf(t, pair.Staging)
	theirs, ok := training.Field(pair.Training)
	if at < 0 || !ok {
		return nil // every query of the dataset reports this
	}
	ours, err := conformed(t)
	if err != nil {
		return err
	}
	if typed := ours.Field(at).Type; !bucket.Comparable(theirs.Type, typed) {
		return fault.InvalidField("key", "column %s of the rows has type %s, and %s joins it to a column of type %s: keys of these types cannot be equal",
			pair.Staging, typed, r, theirs.Type).WithRemedy("cast the column to %s", theirs.Type)
	}
	return nil
}

// columnOf returns the position of a column of the rows, or -1.
func columnOf(t *datafile.Target, name string) int {
	at := t.Fitted.FieldIndices(name)
	if len(at) == 0 {
		return -1
	}
	return at[0]
}

// uniqueColumns are columns whose combined values must be unique.
type uniqueColumns struct {
	columns []int  // in the target's Fitted, ascending
	aligned bool   // rows are compared only within one partition
	needs   string // the reader that needs unique values, as the subject of a sentence
}

// unique returns the sets of columns whose values must be unique: the key columns of each dataset
// that fails otherwise. If no dataset reads the table, the columns are those of the key, if it is
// known, and of the sort order.
//
// If the call allows repeated keys, the key columns are only those of datasets that the caller may
// know and wants to be checked.
func (c *staging) unique() []uniqueColumns {
	allows := c.request.AllowDuplicates
	if allows && (c.request.NoCheck || c.request.DryRun) {
		return nil
	}
	if len(c.readers) == 0 {
		columns := c.knownKey()
		if allows || len(columns) == 0 {
			return nil
		}
		for _, by := range c.target.Layout.Sort {
			columns = append(columns, by.Column)
		}
		return []uniqueColumns{{columns: distinct(columns), needs: "a join"}}
	}
	var out []uniqueColumns
	for _, r := range c.readers {
		if u, ok := r.unique(c.target); ok && (r.Dataset != "" || !allows) && !slices.ContainsFunc(out, u.equal) {
			out = append(out, u)
		}
	}
	return out
}

// unknownKey reports whether the rows are not compared because the key of the table is unknown.
func (c *staging) unknownKey() bool {
	return !c.request.AllowDuplicates && len(c.readers) == 0 && len(c.knownKey()) == 0
}

// knownKey returns the columns of the key that the call names, or else those of the key that the
// table records. It returns nil if there is no such key, or if the table lacks one of its columns.
// The columns of the table's buckets are not enough: several rows may be equal in them.
func (c *staging) knownKey() []int {
	if len(c.request.Key) > 0 {
		return slices.Clone(c.target.Layout.Key)
	}
	var out []int
	for _, id := range c.recordedKey() {
		at := 0
		for at < c.target.Fitted.NumFields() && c.target.FieldID(at) != id {
			at++
		}
		if at == c.target.Fitted.NumFields() {
			return nil
		}
		out = append(out, at)
	}
	return out
}

// recordedKey returns the ids of the columns of the key that the table records: those of its
// property, or else those that identify its rows.
func (c *staging) recordedKey() []int {
	state := c.target.State
	var names []string
	if err := json.Unmarshal([]byte(state.Properties[commit.PropertyKey]), &names); err != nil || len(names) == 0 {
		return state.Identifier
	}
	ids := make([]int, len(names))
	for i, name := range names {
		if f, ok := state.Table.Field(name); ok {
			ids[i] = f.ID
		}
	}
	return ids
}

// unique returns the columns whose values must be unique for the dataset. It returns false if the
// dataset accepts several rows of a key, or if the rows lack one of the columns.
func (r DatasetReader) unique(t *datafile.Target) (uniqueColumns, bool) {
	names := []string{}
	for _, pair := range r.Key {
		names = append(names, pair.Staging)
	}
	if r.Time != "" {
		names = append(names, r.Time)
	}
	out := uniqueColumns{aligned: r.Aligned, needs: r.String()}
	for _, name := range names {
		at := columnOf(t, name)
		if at < 0 {
			return out, false
		}
		out.columns = append(out.columns, at)
	}
	out.columns = distinct(out.columns)
	return out, r.Unique && len(out.columns) > 0
}

// equal reports whether u and o require the same check. The field needs may differ.
func (u uniqueColumns) equal(o uniqueColumns) bool {
	return u.aligned == o.aligned && slices.Equal(u.columns, o.columns)
}

func distinct(columns []int) []int {
	slices.Sort(columns)
	return slices.Compact(columns)
}
