package promote

import (
	"context"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// repoint adds the deletes of replaced files to a change, for the files that replace them. Equality deletes continue to hold: files
// keep their sequence numbers.
func (r *replacing) repoint(_ context.Context, _ *commit.Change, group []rewritten) error {
	for _, f := range group {
		if f.old.Deletes.Vector != nil || len(f.old.Deletes.Positions) > 0 {
			return fault.New(fault.Invalid, "file %s has deleted rows by position, which this version does not carry over", f.old.Location).
				In(r.result.Table, f.old.Location).WithRemedy("rewrite the table's data files, so that the delete files are not needed")
		}
	}
	return nil
}

// randomName returns a name that no other commit has.
func randomName() string { return uuid.NewString()[:attemptDigits] }
