package plan

import (
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Algorithm is the version of the rules by which splits are cut, ordered and dealt to
// lanes. Once a version is released, a change of the rules that would change the rows or
// the order of an old plan takes the next number. Cursors and tickets of another number
// are refused.
const Algorithm = 1

// splitRows is the row target of a split.
const splitRows = 1 << 20

// Plan is all splits of a query, their order and lanes.
type Plan struct {
	Bound
	// ID names all that the plan's rows and their order depend on, and the splits and
	// lanes that came out: cursors carry it.
	ID string
	// FilesID names what the whole plan reads: ID, the dataset, the pin and the file
	// groups of every staging table. Tickets carry it.
	FilesID    string
	Digest     string    // of the dataset
	Staging    []Staging // as the relation lists them
	Splits     []Split   // in order; pruned ones are left out
	Lanes      []Lane
	StoredRows int64  // training rows of all splits as stored: before deletes, filters and joins
	Deleted    int64  // of StoredRows: by deletion vectors
	Inexact    string // why the stream may have other than StoredRows rows; "" if it has exactly those
	Pruned     Pruned
	// Planned are the columns that the catalog was asked about. They are no
	// part of the plan's identity, since the rows do not depend on them.
	Planned Columns

	checked []catalog.Field // training columns whose values are compared with buckets
	// deleteFiles counts those of the training files that are read.
	deleteFiles int
	counted     bool // all that makes the plan inexact is that it has Deleted rows less
}

// Pruned counts what filters and the sample let the plan leave out.
type Pruned struct {
	Splits, Files int
	Rows          int64
}

// Staging is one staging table's part in the plan.
type Staging struct {
	Groups    []FileGroup
	Pruned    int               // files that the staging filter left out
	Layout    []resolve.Pairing // how its files were matched, for people
	Aligned   string            // which partition a training partition is aligned with, for people; "" if any
	Unaligned Unaligned
	Merged    bool // file groups that shared files were merged, as the table is small

	checked []catalog.Field
}

// FileGroup is a set of staging files that some splits match alike. What is read
// of it is shared by these splits. It may have no files.
type FileGroup struct {
	Files       []catalog.File // in the catalog's order
	Bytes, Rows int64          // of all Files
}

// Group returns a file group by its number; that of NoGroup has no files.
func (s *Staging) Group(number int) FileGroup {
	if number == resolve.NoGroup {
		return FileGroup{}
	}
	return s.Groups[number]
}

// Unaligned counts the training partitions, and their rows, that have no
// staging partition to be aligned with: all of their rows are missing.
type Unaligned struct {
	Partitions int
	Rows       int64
}

// Split is the unit of reading: up to splitRows training rows of one bucket
// of one partition; all of them, where repeated rows are dropped or batches are of
// requests. Its ID
// depends on its training files alone.
type Split struct {
	ID        string
	Partition []any              // values of the training table's partition fields except Bucket's
	Bucket    catalog.FileBucket // of the training table's first bucketed key column; Of is 0 if there is none
	Files     []FileRange        // of one partition spec, in (sequence number, location) order
	Rows      int64              // of all Files, pruned ones included
	Groups    []int              // per staging table: its file group, or resolve.NoGroup
}

// FileRange is the rows [From, To) of one data file.
type FileRange struct {
	File     catalog.File
	From, To int64
	Pruned   bool  // no row can pass the filter: not read
	Ordinal  int64 // of a source: the number of row From among the stored rows of the split
}

// Range is the rows [From, To) of a split, counted over its Files before any
// filter.
type Range struct {
	Split    int // index into Plan.Splits
	From, To int64
}

// Lane is one of the plan's ordered queues.
type Lane struct {
	Ranges []Range
	Rows   int64
}

// Source is one table's files as a scan reads them, in order.
type Source struct {
	Table   *catalog.Table
	Files   []FileRange
	Planned []int           // ascending field ids of the columns that the catalog was asked about: no other may be read
	Filter  *expr.Filter    // rows that count; nil keeps all
	Sample  *Sample         // rows that count of those that pass Filter; nil keeps all
	Checked []catalog.Field // the columns whose values must hash to the bucket of every file that has one
	// Ordinals asks for one column more behind the others: the number of each row among
	// the stored rows of its split.
	Ordinals bool
	// BatchRows is how many rows the consumer takes at a time: batches may be as long, and
	// so many bytes of them as Ahead may wait, as far as there is room. 0: as for any source.
	BatchRows int
	Ahead     int64
	// Complete says that every file has every column: one that lacks it is Corrupt,
	// and nothing stands for what it lacks.
	Complete bool
}

// Training returns what is to be read of the training table for a range of a
// split: the rows of the split's files that it covers, pruned files left out.
func (p *Plan) Training(rows Range) Source {
	split := p.Splits[rows.Split]
	source := Source{Table: p.Relation.Training, Planned: p.Planned.Training, Filter: p.Filter, Sample: p.Sample, Checked: p.checked, Ordinals: p.Rows.ShuffleWindow > 0}
	at := int64(0)
	for _, f := range split.Files {
		length := f.To - f.From
		from, to := max(rows.From-at, 0), min(rows.To-at, length)
		if from < to && !f.Pruned {
			source.Files = append(source.Files, FileRange{File: f.File, From: f.From + from, To: f.From + to, Ordinal: at + from})
		}
		at += length
	}
	return source
}

// Group returns what is to be read of a staging table for one file group of it.
// NoGroup gives a source without files.
func (p *Plan) Group(staging, group int) Source {
	s := &p.Staging[staging]
	r := p.Relation.Staging[staging]
	source := Source{Table: r.Pinned, Planned: p.Planned.Staging[staging], Filter: r.Rows, Checked: s.checked}
	for _, f := range s.Group(group).Files {
		source.Files = append(source.Files, FileRange{File: f, To: f.Rows})
	}
	return source
}

// ExactRows returns how many rows a stream over all lanes gives, or false.
func (p *Plan) ExactRows() (int64, bool) {
	return p.StoredRows - p.Deleted, p.Inexact == "" || p.counted
}

// Counts returns how many rows each lane gives; nil if that cannot be known before
// reading.
func (p *Plan) Counts() *dataset.Counts {
	if p.Inexact != "" {
		return nil
	}
	lanes := make([]int64, len(p.Lanes))
	for i, l := range p.Lanes {
		lanes[i] = l.Rows
	}
	return dataset.NewCounts(lanes)
}
