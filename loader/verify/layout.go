package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// layout checks that the rows of one file belong to the buckets of the file's partition.
type layout struct {
	file    File
	buckets []bucketed
	first   string // the first row in a wrong bucket
}

// bucketed is a column of a file, and the bucket to which its rows should belong.
type bucketed struct {
	column catalog.Field
	bucket catalog.FileBucket
	found  []int32
}

// newLayout returns the layout of a file. keys has the field ids of the join key's columns.
func newLayout(t *catalog.Table, f catalog.File, keys map[int]bool) *layout {
	l := &layout{file: File{File: f.Location, Spec: f.Spec, Rows: f.Rows}}
	var parts []string
	for i, p := range t.Specs[f.Spec] {
		column, known := t.ByID(p.Source)
		parts = append(parts, fieldText(p, column.Name)+" = "+shorten(p.Text(f.Partition[i], column)))
		if p.Transform.Kind != catalog.Bucket || !known {
			continue
		}
		l.buckets = append(l.buckets, bucketed{column: column, bucket: p.Bucket(f.Partition[i])})
		l.file.Bucketed = l.file.Bucketed || keys[column.ID]
	}
	l.file.Partition = strings.Join(parts, ", ")
	return l
}

// fieldText returns a partition field as text, such as "bucket[16](id)".
func fieldText(p catalog.PartitionField, column string) string {
	if p.Transform.Kind == catalog.Identity {
		return column
	}
	transform := string(p.Transform.Kind)
	if p.Transform.N > 0 {
		transform += fmt.Sprintf("[%d]", p.Transform.N)
	}
	return fmt.Sprintf("%s(%s)", transform, column)
}

func specText(t *catalog.Table, spec int) string {
	var parts []string
	for _, p := range t.Specs[spec] {
		column, _ := t.ByID(p.Source)
		parts = append(parts, fieldText(p, column.Name))
	}
	return strings.Join(parts, ", ")
}

// columns returns the distinct columns that check reads.
func (l *layout) columns() []catalog.Field {
	var columns []catalog.Field
	for _, b := range l.buckets {
		columns = withField(columns, b.column)
	}
	return columns
}

// checkOnly limits the check to the buckets of the given columns, since other columns cannot be
// read.
func (l *layout) checkOnly(columns []catalog.Field) {
	before := len(l.buckets)
	l.buckets = slices.DeleteFunc(l.buckets, func(b bucketed) bool { return fieldAt(columns, b.column) < 0 })
	l.file.Unread = l.file.Unread || len(l.buckets) < before
}

// withField appends a column unless the list has it already.
func withField(columns []catalog.Field, f catalog.Field) []catalog.Field {
	if fieldAt(columns, f) < 0 {
		columns = append(columns, f)
	}
	return columns
}

func fieldAt(columns []catalog.Field, f catalog.Field) int {
	for i, c := range columns {
		if c.ID == f.ID {
			return i
		}
	}
	return -1
}

// check checks the buckets of rows. It finds the columns by their names. first is the number of the
// first row in the file.
func (l *layout) check(rows arrow.RecordBatch, first int64) error {
	var wrong []bool
	for i := range l.buckets {
		b := &l.buckets[i]
		column := rows.Column(rows.Schema().FieldIndices(b.column.Name)[0])
		var err error
		if b.found, err = bucket.Array(b.found[:0], column, b.bucket.Of); err != nil {
			return fault.Op(err, "check the buckets of column %s", b.column.Name)
		}
		for row, id := range b.found {
			belongs := catalog.FileBucket{ID: int(id), Of: b.bucket.Of}
			if belongs == b.bucket {
				continue
			}
			if wrong == nil {
				wrong = make([]bool, rows.NumRows())
			}
			wrong[row] = true
			if l.first == "" {
				l.first = fmt.Sprintf("row %d has %s = %s, which belongs to bucket %s of %d, but the manifest says bucket %s",
					first+int64(row), b.column.Name, shorten(batch.Text(column, row)), belongs, belongs.Of, b.bucket)
			}
		}
	}
	for _, w := range wrong {
		if w {
			l.file.Wrong++
		}
	}
	return nil
}

// message returns the text of the finding for a file that has rows of other buckets.
func (l *layout) message() string {
	text := l.first
	if l.file.Wrong > 1 {
		text += fmt.Sprintf("; %d of its %d rows are in the wrong bucket", l.file.Wrong, l.file.Rows)
	}
	return text + "; rewrite the file"
}

// maxShown is the maximum number of bytes of a value that a report shows.
const maxShown = 64

// shorten returns a truncated copy. A copy is needed because a value of a batch is valid only as
// long as the batch.
func shorten(value string) string {
	if len(value) > maxShown {
		return strings.ToValidUTF8(value[:maxShown], "") + "…"
	}
	return strings.Clone(value)
}

func byFile(a, b File) int { return cmp.Compare(a.File, b.File) }
