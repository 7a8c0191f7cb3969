package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/resolve"
)

// Files lists the data files of every table of a relation.
type Files struct {
	Training Listing
	Staging  []Listing
}

// Listing lists the data files of one table in the catalog's order: by (sequence
// number, File.OrderedAs).
type Listing struct {
	Files   []catalog.File
	Columns []int // field ids of the columns that the catalog has checked
	// Unlisted means that the files were not listed, because no stream of the plan reads the
	// staging entry.
	Unlisted bool
}

// Build makes the plan of a bound query. Errors in the query are Invalid.
func Build(b *Bound, files Files) (*Plan, error) {
	r := b.Relation
	p := &Plan{Bound: *b, Digest: r.Dataset.Digest()}
	p.Planned.Training = files.Training.Columns
	for i := range r.Staging {
		p.Planned.Staging = append(p.Planned.Staging, files.Staging[i].Columns)
	}
	if err := p.checkDistinct(files.Training.Files); err != nil {
		return nil, err
	}
	p.Inexact = p.inexact()
	p.checked = resolve.Bucketed(r.Training, files.Training.Files, p.trusted())
	p.Splits = p.prune(p.cut(p.byBucket(files.Training.Files)))
	p.countDeleted()
	if p.Rows.Requests && p.Inexact == "" {
		p.Inexact, p.counted = "lanes give requests, and those are seen when they are read", true
	}
	if err := p.checkWritten(); err != nil {
		return nil, err
	}
	p.sort(files.Training.Files)
	for i := range r.Staging {
		s, err := p.matchStaging(i, files)
		if err != nil {
			return nil, err
		}
		p.Staging = append(p.Staging, s)
	}
	p.deal(p.Rows.Lanes)
	if p.Inexact == "" {
		p.counts = countsOf(p.Lanes)
	}
	p.setIDs()
	return p, nil
}

// trusted returns the training columns for which the plan relies on the files being in the right
// buckets.
func (b *Bound) trusted() []catalog.Field {
	var columns []catalog.Field
	for _, s := range b.Relation.Staging {
		for _, k := range s.Keys {
			columns = append(columns, k.Training)
		}
	}
	if d := b.Relation.Distinct; d != nil {
		columns = append(columns, d.By...)
	}
	if b.Sample != nil && len(b.Sample.Columns) > 0 {
		for _, name := range b.Sample.Columns {
			f, _ := b.Relation.Training.Field(name)
			columns = append(columns, f)
		}
	}
	return columns
}

// mayMatch reports whether any row of a file can pass a filter of its table.
func mayMatch(filter *expr.Filter, t *catalog.Table, f catalog.File) bool {
	return filter.MayMatch(func(column string) (expr.Range, bool) {
		field, _ := t.Field(column)
		r, ok := f.Ranges[field.ID]
		return r, ok
	})
}

// bucketFiles holds the training files of one bucket of one partition of one spec.
type bucketFiles struct {
	partition []any
	bucket    catalog.FileBucket
	files     []catalog.File
}

// byBucket groups the training files by spec, partition values and bucket.
func (b *Bound) byBucket(files []catalog.File) []*bucketFiles {
	var buckets []*bucketFiles
	at := map[string]*bucketFiles{}
	var id []byte
	for _, f := range files {
		id = catalog.AppendPartition(fmt.Appendf(id[:0], "%d\n", f.Spec), f.Partition)
		group := at[string(id)]
		if group == nil {
			group = b.newBucketFiles(f)
			at[string(id)] = group
			buckets = append(buckets, group)
		}
		group.files = append(group.files, f)
	}
	return buckets
}

func (b *Bound) newBucketFiles(f catalog.File) *bucketFiles {
	t := b.Relation.Training
	group := &bucketFiles{partition: f.Partition}
	if i := b.BucketField(f.Spec); i >= 0 {
		group.bucket, _ = t.BucketOf(f, t.Specs[f.Spec][i].Source)
		group.partition = slices.Concat(f.Partition[:i:i], f.Partition[i+1:])
	}
	return group
}

// BucketField returns the index of the partition field that orders splits: the bucket of the
// dataset's first bucketed key column, or else the first bucket of the spec, or -1 if the spec has
// no bucket. The result must not depend on the staging tables, so that experiments with and without
// a feature read rows in the same order.
func (b *Bound) BucketField(spec int) int {
	t := b.Relation.Training
	for _, name := range b.Relation.Dataset.Key {
		field, _ := t.Field(name)
		for i, f := range t.Specs[spec] {
			if f.Source == field.ID && f.Transform.Kind == catalog.Bucket {
				return i
			}
		}
	}
	return slices.IndexFunc(t.Specs[spec], func(f catalog.PartitionField) bool { return f.Transform.Kind == catalog.Bucket })
}

// cut divides the rows of each bucket into splits of splitRows rows, in the order of the bucket's
// files. A split may end within a file. If repeated rows are dropped, or if batches consist of
// requests, each bucket is one split.
func (b *Bound) cut(buckets []*bucketFiles) []Split {
	splits := make([]Split, 0, len(buckets))
	for _, group := range buckets {
		open := Split{Partition: group.partition, Bucket: group.bucket}
		for _, f := range group.files {
			for from := int64(0); from < f.Rows; {
				to := min(f.Rows, from+splitRows-open.Rows)
				if b.wholeBuckets() {
					to = f.Rows
				}
				open.Files = append(open.Files, FileRange{File: f, From: from, To: to})
				open.Rows += to - from
				from = to
				if open.Rows == splitRows && !b.wholeBuckets() {
					splits = append(splits, open)
					open.Files, open.Rows = nil, 0
				}
			}
		}
		if open.Rows > 0 {
			splits = append(splits, open)
		}
	}
	for i := range splits {
		splits[i].ID = splitID(splits[i].Files)
	}
	return splits
}

// splitID returns the ID of a split, which is derived from its files and its rows. Shuffles hash
// the ID, so its format affects the order that a seed produces. Neither promotions nor deletes
// change the ID.
func splitID(files []FileRange) string {
	var text []byte
	for _, f := range files {
		text = fmt.Appendf(text, "%q %d %d\n", f.File.OrderedAs(), f.From, f.To)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// prune marks files in which no row can pass the filter as pruned. It drops splits whose files are
// all pruned, and splits that the sample excludes.
func (p *Plan) prune(splits []Split) []Split {
	if p.Filter == nil && p.Sample == nil {
		return splits
	}
	return slices.DeleteFunc(splits, func(s Split) bool {
		pruned, sampled := 0, p.sampled(s)
		for i, f := range s.Files {
			if !sampled || !mayMatch(p.Filter, p.Relation.Training, f.File) {
				s.Files[i].Pruned = true
				pruned++
				p.Pruned.Rows += f.To - f.From
			}
		}
		p.Pruned.Files += pruned
		if pruned < len(s.Files) {
			return false
		}
		p.Pruned.Splits++
		return true
	})
}

// sampled reports whether the sample may keep any rows of a split, judged by the split's bucket.
func (b *Bound) sampled(s Split) bool {
	if b.Sample == nil || len(b.Sample.Columns) != 1 {
		return true
	}
	column, _ := b.Relation.Training.Field(b.Sample.Columns[0])
	held, ok := b.Relation.Training.BucketOf(s.Files[0].File, column.ID)
	return !ok || bucket.MayHold(int32(held.ID), held.Of, b.Sample.From, b.Sample.To)
}
