package scan

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// subject returns the table and snapshot of a source, for errors.
func subject(source plan.Source) string {
	return fmt.Sprintf("%s@%d", source.Table.Name, source.Table.Pin.Snapshot)
}

// located adds the table, the file and its bucket to an error about a file of the source.
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
	out := fault.As(fault.Op(err, "read %s", op)) // a copy, so that it can be changed
	if out.File == "" {
		out.File = f.Location
	}
	out.Table = source.Table.Name
	return out
}
