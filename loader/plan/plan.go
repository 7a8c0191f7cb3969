package plan

import (
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Algorithm is the version of the rules by which splits are cut, ordered and assigned
// to lanes. After a version is released, a change of the rules that would change the
// rows or the order of an old plan increments it. Cursors and tickets with another
// version are refused.
const Algorithm = 1

// splitRows is the target number of rows of a split.
const splitRows = 1 << 20

// Plan holds all splits of a query, their order and their lanes.
type Plan struct {
	Bound
	// ID identifies everything that determines the plan's rows and their order, and the
	// resulting splits and lanes. Cursors carry it.
	ID string
	// TablesID identifies the dataset and the state of all of its tables: ID, the dataset's digest and
	// the pins of all tables. Plans whose queries differ in nothing but columns have the same, also if they
	// read other staging tables.
	TablesID string
	// FilesID identifies everything that the plan reads: what TablesID does, and the file
	// groups of every staging table that it reads. Tickets carry it.
	FilesID     string
	Digest      string    // of the dataset
	Staging     []Staging // in the order of the relation
	Splits      []Split   // in order, without pruned splits
	Lanes       []Lane
	storedOrder []int  // by split: its position in the stored order, if splits are permuted
	StoredRows  int64  // training rows of all splits as stored: before deletes, filters and joins
	Deleted     int64  // of StoredRows: deleted by deletion vectors
	Inexact     string // why the stream may not have exactly StoredRows rows; "" if it does
	Pruned      Pruned
	// Planned lists the columns that the catalog was asked about. They are not part of
	// the plan's identity, since the rows do not depend on them.
	Planned Columns

	checked []catalog.Field // training columns whose values, if they are read, are checked against their buckets
	// deleteFiles is the number of delete files of the training files that are read.
	deleteFiles int
	counted     bool            // the plan is inexact only because Deleted rows are missing
	counts      *dataset.Counts // see Counts
}

// Pruned counts what the plan skips because of filters and the sample.
type Pruned struct {
	Splits, Files int
	Rows          int64
}

// Staging is the part of a plan that concerns one staging table.
type Staging struct {
	// Unread reports that no stream of the plan's columns reads the table. Its files are not known, and no
	// split has a group of it.
	Unread    bool
	Groups    []FileGroup
	Pruned    int               // files that the staging filter excluded
	Layout    []resolve.Pairing // how its files were matched, for people
	Aligned   string            // which partition a training partition is aligned with, for people; "" if none
	Unaligned Unaligned
	Merged    bool // file groups that share files were merged, since the table is small

	checked []catalog.Field
}

// FileGroup is a set of staging files that match the same splits. The splits share what
// is read of it. It may have no files.
type FileGroup struct {
	Files       []catalog.File // in the catalog's order
	Bytes, Rows int64          // of all Files
}

// Group returns a file group by its number. The group of NoGroup has no files.
func (s *Staging) Group(number int) FileGroup {
	if number == resolve.NoGroup {
		return FileGroup{}
	}
	return s.Groups[number]
}

// Files returns the files that match some split, each once.
func (s *Staging) Files() []catalog.File {
	var files []catalog.File
	seen := map[string]bool{}
	for _, g := range s.Groups {
		for _, f := range g.Files {
			if !seen[f.Location] {
				seen[f.Location] = true
				files = append(files, f)
			}
		}
	}
	return files
}

// Unaligned counts the training partitions without an aligned staging partition, and
// their rows, none of which finds a match.
type Unaligned struct {
	Partitions int
	Rows       int64
}

// Split is the unit of reading: up to splitRows training rows of one bucket of one
// partition, or all rows of the bucket if repeated rows are dropped or batches consist
// of requests. Its ID depends only on its training files.
type Split struct {
	ID        string
	Partition []any              // values of the training table's partition fields except Bucket's
	Bucket    catalog.FileBucket // of the training table's first bucketed key column; Of is 0 if there is none
	Files     []FileRange        // of one partition spec, in (sequence number, location) order
	Rows      int64              // of all Files, pruned ones included
	Groups    []int              // by staging table: its file group, or resolve.NoGroup
}

// FileRange is the rows [From, To) of one data file.
type FileRange struct {
	File     catalog.File
	From, To int64
	Pruned   bool  // no row can pass the filter: not read
	Ordinal  int64 // of a source: the number of row From among the stored rows of the split
}

// Range is the rows [From, To) of a split, counted over its Files before any filter.
type Range struct {
	Split    int // index into Plan.Splits
	From, To int64
}

// Lane is one of the plan's ordered queues.
type Lane struct {
	Ranges []Range
	Rows   int64
}

// Source is the files of one table in the order in which a scan reads them.
type Source struct {
	Table   *catalog.Table
	Files   []FileRange
	Planned []int           // ascending field ids of the columns that the catalog was asked about: only these may be read
	Filter  *expr.Filter    // selects the rows that count; nil keeps all
	Sample  *Sample         // selects those of the rows that pass Filter; nil keeps all
	Checked []catalog.Field // columns that are read, and whose values must hash to the bucket of every file that has one
	// Ordinals appends a column with each row's number among the stored rows of its
	// split.
	Ordinals bool
	// BatchRows is the number of rows that the consumer takes at a time: batches may
	// have that many rows, and up to Ahead bytes of batches may be queued if the budget
	// allows. 0 leaves both at their defaults.
	BatchRows int
	Ahead     int64
	// StepRows, if above 0, is the number of rows that the consumer takes at a time if every stored row is one; batches
	// end with them where they can. Begun is how many rows of the first step come before the source.
	StepRows, Begun int64
	// Starting reports whether the stream has returned no row yet: until then the scan decodes smaller batches, and
	// one of them ahead, so that the first rows do not wait for later ones. nil: it does not matter.
	Starting func() bool
	// Coded are the field ids of columns whose texts or binary values may come as codes (package
	// batch). A scan returns values of columns that it has to look at itself.
	Coded []int
	// Shared makes the scan share stored bytes with other scans of its stream. It is set by the
	// scanner's SharedScans.Expect; nil: the scan reads its own.
	Shared SharedRead
	// Cache is how the scan uses the cache of decoded columns; "" is dataset.CacheRead.
	Cache dataset.CacheUse
	// Spare makes the scan fill that cache with what it reads for the first time, too, but only into free room: of columns that no
	// second scan reads, since what is made of them is kept.
	Spare bool
	// CacheReads counts what the scan reads from that cache; nil: it is not counted.
	CacheReads *CacheReads
	// Asked is called with the stored size of the column chunks of a file that the scan decodes, row
	// group by row group: not of those in the cache of decoded columns. It is called from the scan's
	// goroutines; nil: it is not counted.
	Asked func(location string, bytes int64)
	// Complete requires that every file has every column: a file that lacks one is
	// Corrupt, and no default replaces the missing values.
	Complete bool
}

// SharedRead is a scan of a source, now or later, as the owner of its stored bytes knows it.
type SharedRead interface {
	// Done announces that no scan will read the source, or the rest of it. It may be called
	// more than once, and during a scan.
	Done()
}

// Training returns the source for a range of a split: the rows of the split's files
// that the range covers, without pruned files.
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

// Group returns the source for one file group of a staging table. The source of NoGroup
// has no files.
func (p *Plan) Group(staging, group int) Source {
	s := &p.Staging[staging]
	r := p.Relation.Staging[staging]
	source := Source{Table: r.Pinned, Planned: p.Planned.Staging[staging], Filter: r.Rows, Checked: s.checked}
	for _, f := range s.Group(group).Files {
		source.Files = append(source.Files, FileRange{File: f, To: f.Rows})
	}
	return source
}

// ExactRows returns the number of rows of a stream over all lanes, and whether it is
// known.
func (p *Plan) ExactRows() (int64, bool) {
	return p.StoredRows - p.Deleted, p.Inexact == "" || p.counted
}

// Counts returns the number of rows of each lane; nil if that is unknown before
// reading. The caller must not modify them.
func (p *Plan) Counts() *dataset.Counts { return p.counts }

// countsOf returns the number of rows of each lane.
func countsOf(lanes []Lane) *dataset.Counts {
	rows := make([]int64, len(lanes))
	for i, l := range lanes {
		rows[i] = l.Rows
	}
	return dataset.NewCounts(rows)
}
