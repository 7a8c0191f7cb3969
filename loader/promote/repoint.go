package promote

import (
	"context"
	"fmt"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/repoint"
)

// repoint rewrites the position deletes and deletion vectors of replaced files for their
// replacements, and adds them to a change. It returns the locations of the written files, even
// after an error. Equality deletes still apply, because files keep their sequence numbers.
func (r *replacing) repoint(ctx context.Context, out *commit.Change, now liveGroup) (written []string, err error) {
	moved := make([]repoint.MovedFile, len(now.files))
	for i, f := range now.files {
		moved[i] = repoint.MovedFile{Old: f.old, New: f.location}
	}
	t := *now.state.Table
	t.Name = r.result.Table
	folder, name := r.state.DataFolder(), commit.AttemptName()
	deletes, err := repoint.Write(ctx, &t, moved, repoint.Options{
		Version: now.state.Version, Deletes: r.options.Deletes, Files: r.files, Budget: r.options.Budget,
		Stays: func(location string) bool { return now.locations[location] },
		Name: func(extension string) string {
			written = append(written, fmt.Sprintf("%s/%s-%s-d%05d%s", folder, r.prefix, name, len(written), extension))
			return written[len(written)-1]
		},
	})
	out.AddDeletes, out.RemoveDeletes = deletes.Add, deletes.Remove
	return written, err
}
