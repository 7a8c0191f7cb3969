package scan

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// fileBucket is the bucket that a manifest says a file's keys belong to.
type fileBucket struct {
	id int32 // bucket.Null: the bucket of null keys
	of int
}

func (b fileBucket) String() string {
	if b.id == bucket.Null {
		return "null"
	}
	return strconv.Itoa(int(b.id))
}

// bucketOf finds a file's bucket on a column by the file's own partition spec;
// false if that spec does not bucket the column.
func bucketOf(t *catalog.Table, f catalog.File, column int) (fileBucket, bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source != column || p.Transform.Kind != catalog.Bucket || i >= len(f.Partition) {
			continue
		}
		if id, ok := f.Partition[i].(int64); ok {
			return fileBucket{id: int32(id), of: p.Transform.N}, true
		}
		return fileBucket{id: bucket.Null, of: p.Transform.N}, true
	}
	return fileBucket{}, false
}

// checker compares the keys of one file with its bucket.
type checker struct {
	at     int // position of the key in what is read
	column catalog.Field
	bucket fileBucket
	found  []int32
}

// checkers returns one for each checked key on which a file is bucketed: a
// table may hold files of several specs.
func checkers(t *catalog.Table, f catalog.File, p *projection) []*checker {
	var all []*checker
	for _, at := range p.checked {
		if b, ok := bucketOf(t, f, p.read[at].ID); ok {
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
	if c.found, err = bucket.Array(c.found[:0], keys, c.bucket.of); err != nil {
		return fault.Op(err, "check the buckets of column %s", c.column.Name)
	}
	for i, found := range c.found {
		if found != c.bucket.id {
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
	belongs := fileBucket{id: c.found[i], of: c.bucket.of}
	return fault.New(fault.Corrupt, "row %d has %s = %s, which belongs to bucket %s of %d; the manifest says that the file is of bucket %s",
		row+int64(i), c.column.Name, value, belongs, belongs.of, c.bucket).
		WithRemedy("the table lies about its layout: rewrite the file")
}
