package scan

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// checker compares the keys of one file with its bucket.
type checker struct {
	at     int // position of the key in what is read
	column catalog.Field
	bucket catalog.FileBucket
	found  []int32
}

// checkers returns one for each checked key on which a file is bucketed: a
// table may hold files of several specs.
func checkers(t *catalog.Table, f catalog.File, p *projection) []*checker {
	var all []*checker
	for _, at := range p.checked {
		if b, ok := t.BucketOf(f, p.read[at].ID); ok {
			all = append(all, &checker{at: at, column: p.read[at], bucket: b})
		}
	}
	return all
}

// check fails for the first of the keys from..to that the file's bucket cannot
// hold. The first of them is that of the file's row.
func (c *checker) check(column arrow.Array, from, to, row int64) error {
	keys := array.NewSlice(column, from, to)
	defer keys.Release()
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

// longestValue bounds what an error shows of a key, in bytes.
const longestValue = 64

func (c *checker) mismatch(keys arrow.Array, i int, row int64) error {
	value := keys.ValueStr(i)
	if len(value) > longestValue {
		value = strings.ToValidUTF8(value[:longestValue], "") + "…"
	}
	belongs := catalog.FileBucket{ID: int(c.found[i]), Of: c.bucket.Of}
	return fault.New(fault.Corrupt, "row %d has %s = %s, which belongs to bucket %s of %d; the manifest says that the file is of bucket %s",
		row+int64(i), c.column.Name, value, belongs, belongs.Of, c.bucket).
		WithRemedy("the table lies about its layout: rewrite the file")
}
