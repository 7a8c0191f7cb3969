package scan

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// subject names what is read: a table at a snapshot.
func subject(source plan.Source) string {
	return fmt.Sprintf("%s@%d", source.Table.Name, source.Table.Pin.Snapshot)
}

// located adds to an error about one of the source's files what the packages
// below do not know: the table, and the bucket that the file belongs to.
func located(err error, source plan.Source, f catalog.File) error {
	if err == nil {
		return nil
	}
	op := subject(source)
	var buckets []string
	for _, key := range source.Checked {
		if b, ok := source.Table.BucketOf(f, key.ID); ok {
			buckets = append(buckets, b.String())
		}
	}
	if len(buckets) > 0 {
		op = "bucket " + strings.Join(buckets, ", ") + " of " + op
	}
	out := fault.As(fault.Op(err, "read %s", op)) // a copy: it may be filled in
	if out.File == "" {
		out.File = f.Location
	}
	out.Table = source.Table.Name
	return out
}
