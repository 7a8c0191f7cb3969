package scan

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// checker checks that the keys of a file belong to its bucket.
type checker struct {
	at     int // index of the key column in the decoded batch
	column catalog.Field
	bucket catalog.FileBucket
	found  []int32
}

// checkers returns a checker for each checked key that the file is bucketed on. Files of
// one table may have different partition specs.
func checkers(t *catalog.Table, f catalog.File, p *projection) []*checker {
	var all []*checker
	for _, at := range p.checked {
		if b, ok := t.BucketOf(f, p.read[at].ID); ok {
			all = append(all, &checker{at: at, column: p.read[at], bucket: b})
		}
	}
	return all
}

// check returns an error for the first key that does not belong to the file's bucket. row is the
// row number of keys[0] in the file.
func (c *checker) check(keys arrow.Array, row int64) error {
	var err error
	if c.found, err = bucket.Array(c.found[:0], keys, c.bucket.Of); err != nil {
		return fault.Op(err, "check the buckets of column %s", c.column.Name)
	}
	for i, found := range c.found {
		if int(found) != c.bucket.ID {
			return c.mismatch(keys, i, row)
		}
	}
	return nil
}

// maxShownKey is the maximum length of a key in an error, in bytes.
const maxShownKey = 64

func (c *checker) mismatch(keys arrow.Array, i int, row int64) error {
	value := batch.Text(keys, i)
	if len(value) > maxShownKey {
		value = strings.ToValidUTF8(value[:maxShownKey], "") + "…"
	}
	belongs := catalog.FileBucket{ID: int(c.found[i]), Of: c.bucket.Of}
	return fault.New(fault.Corrupt, "row %d has %s = %s, which belongs to bucket %s of %d; the manifest says that the file is of bucket %s",
		row+int64(i), c.column.Name, value, belongs, belongs.Of, c.bucket).
		WithRemedy("the table's layout is wrong: rewrite the file")
}
