package commit

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// checkBeginning checks a change that creates a branch or a table.
func (c Change) checkBeginning() error {
	main := c.Branch == "" || c.Branch == Main
	switch {
	case c.Begin != 0 && main:
		return fault.InvalidField("begin", "%s begins with the first snapshot of the table, and not at snapshot %d", Main, c.Begin)
	case c.Creates != nil && (!main || c.Mode != Append || c.Base != 0 || c.UUID != "" || c.Creates.Table != c.Table):
		return fault.InvalidField("creates", "a change that creates table %s appends its first files to %s", c.Table, Main)
	}
	return nil
}

// Check returns Invalid for a change that contradicts itself. Now is the committer's current time.
// If it is zero, the change's token may have any time.
func (c Change) Check(now time.Time) error {
	if c.Table == "" {
		return fault.InvalidField("table", "the change names no table")
	}
	if err := c.checkToken(now); err != nil {
		return err
	}
	switch c.Mode {
	case Append:
		if len(c.Remove)+len(c.RemoveDeletes)+len(c.AddDeletes) > 0 {
			return fault.InvalidField("remove", "an append removes no files and has no deletes")
		}
	case Overwrite, Rewrite:
		if len(c.Remove)+len(c.RemoveDeletes) > 0 && c.Base == 0 {
			return fault.InvalidField("base", "the change removes files, and does not say which snapshot its own are derived from")
		}
	default:
		return fault.InvalidField("mode", "%d is not a mode", c.Mode)
	}
	if len(c.Add)+len(c.Remove)+len(c.RemoveDeletes)+len(c.Columns) == 0 {
		return fault.InvalidField("add", "the change is empty: it adds and removes no files, and adds no columns")
	}
	if err := c.checkRows(); err != nil {
		return err
	}
	if err := c.checkBeginning(); err != nil {
		return err
	}
	if _, ok := c.Summary[SummaryToken]; ok {
		return fault.InvalidField("summary", "%s is written from the change's token", SummaryToken)
	}
	if err := unrepeated("add", len(c.Add), func(i int) string { return c.Add[i].Location }); err != nil {
		return err
	}
	if err := unrepeated("remove", len(c.Remove), func(i int) string { return c.Remove[i] }); err != nil {
		return err
	}
	for i := range c.Add {
		if err := c.Add[i].check(c.Remove); err != nil {
			return err
		}
	}
	if err := c.checkDeletes(); err != nil {
		return err
	}
	return c.checkColumns()
}

// checkToken checks the token, if there is one.
func (c Change) checkToken(now time.Time) error {
	if c.Token == "" {
		return nil
	}
	return CheckToken(c.Token, now)
}

// checkRows checks the numbers of rows, as far as this is possible without the table.
func (c Change) checkRows() error {
	switch {
	case c.DroppedRows < 0 || c.DroppedRows > 0 && c.Mode != Rewrite:
		return fault.InvalidField("dropped_rows", "the change leaves %d rows out, but only a rewrite says so", c.DroppedRows)
	case c.Mode == Rewrite && c.rowsAdded() > 0 && len(c.Remove) == 0:
		return fault.InvalidField("remove", "the change only rewrites rows, but adds %d and removes no file", c.rowsAdded())
	}
	return nil
}

func (c Change) rowsAdded() (rows int64) {
	for _, f := range c.Add {
		rows += f.Rows
	}
	return rows
}

// unrepeated returns an error if a location is empty or occurs twice.
func unrepeated(field string, n int, location func(int) string) error {
	seen := make(map[string]bool, n)
	for i := range n {
		at := location(i)
		if at == "" {
			return fault.InvalidField(field, "a file has no location")
		}
		if seen[at] {
			return fault.InvalidField(field, "file %s is given twice", at)
		}
		seen[at] = true
	}
	return nil
}

// check checks an added file.
func (f DataFile) check(removed []string) error {
	switch {
	case f.Rows < 0 || f.Bytes <= 0:
		return fault.InvalidField("add", "file %s has %d rows and %d bytes", f.Location, f.Rows, f.Bytes)
	case slices.Contains(removed, f.Location):
		// A job that expires the old snapshot would delete the file.
		return fault.InvalidField("add", "file %s is added and removed", f.Location).WithRemedy("write the rows to a file of another name")
	case f.Snapshot != 0 && f.Sequence != 0:
		return fault.InvalidField("add", "file %s has a sequence number and the snapshot of rows without one", f.Location)
	case f.Sequence < 0 || f.FirstRow != nil && *f.FirstRow < 0:
		return fault.InvalidField("add", "file %s has a negative sequence number or row id", f.Location)
	}
	return nil
}

// checkColumns checks the columns to add.
func (c Change) checkColumns() error {
	for i, column := range c.Columns {
		switch {
		case column.ID <= 0 || column.Name == "" || column.Type == "":
			return fault.InvalidField("columns", "column %d (%q) needs an id, a name and a type", i, column.Name)
		case column.Required:
			return fault.InvalidField("columns", "column %q is required, but the table's files do not have it", column.Name).
				WithRemedy("make the column optional")
		case slices.ContainsFunc(c.Columns[:i], func(other NewColumn) bool { return other.ID == column.ID || other.Name == column.Name }):
			return fault.InvalidField("columns", "column %q or its id %d is given twice", column.Name, column.ID)
		}
	}
	return nil
}

// errUncertain marks errors after which the outcome of a commit is unknown.
var errUncertain = errors.New("the outcome of the commit is unknown")

// Uncertain reports whether the change of the failed call may nevertheless have been made, or may
// still be made. The files of the change must then be kept.
func Uncertain(err error) bool { return errors.Is(err, errUncertain) }

// AsUncertain returns err as an error for which Uncertain is true.
func AsUncertain(err error) error {
	e := *fault.As(err)
	e.Err = errors.Join(e.Err, errUncertain)
	return &e
}

// Repeatable returns err. If Uncertain is true for it, the result has the given remedy.
func Repeatable(err error, remedy string) error {
	if !Uncertain(err) {
		return err
	}
	e := *fault.As(err)
	e.Remedy = remedy
	return &e
}

// RepeatToken returns err. If Uncertain is true for it, the remedy says to repeat the call with the
// token.
func RepeatToken(err error, token string) error {
	return Repeatable(err, "repeat the call with token "+token+": it makes the change if it was not made, and not twice")
}
