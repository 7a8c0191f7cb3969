package plan

import (
	"cmp"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// The algorithms: versions of the rules by which splits are cut, ordered and assigned to lanes. A
// number is never used again for other rules.
const (
	dealtEachEpoch = 1 // splits are dealt to lanes in the order of the epoch
	dealtOnce      = 2 // splits of a shuffled order are dealt equally in each epoch, and each lane has its own order
)

// Algorithm is the newest algorithm. It must be incremented if a change of the rules would change
// the rows or the order of plans of a released version. Cursors and tickets of unknown algorithms
// are refused. A release that increments it must also serve the version before, and plan by it
// unless a query names the new one (docs/upgrade.md).
const Algorithm = dataset.NewestAlgorithm

// Serves reports whether this version makes plans by an algorithm.
func Serves(algorithm int) bool { return algorithm >= dealtEachEpoch && algorithm <= Algorithm }

// AlgorithmOf returns the algorithm of a query whose defaults are set: the one that it names, or
// else that of its cursors, or else 1. All ranks of a job send the same query, so they get the same
// algorithm from servers of different releases. A query that two algorithms plan equally has the
// lower one.
func AlgorithmOf(q dataset.Query) int {
	if !q.Order.IsShuffled() || q.Lanes <= 1 { // both algorithms plan it equally
		return dealtEachEpoch
	}
	if q.Algorithm == 0 && len(q.Cursor) > 0 && Serves(q.Cursor[0].Algorithm) {
		return q.Cursor[0].Algorithm
	}
	return cmp.Or(q.Algorithm, dealtEachEpoch)
}

// LanesKeepRows reports whether each lane has the same rows in all epochs and seeds.
func (p *Plan) LanesKeepRows() bool {
	return p.Algorithm == dealtOnce || len(p.Lanes) == 1 || !p.Rows.Order.IsShuffled()
}

// splitRows is the target number of rows of a split.
const splitRows = 1 << 20

// Plan holds all splits of a query, their order and their lanes.
type Plan struct {
	Bound
	// ID identifies everything that determines the plan's rows and their order, and the
	// resulting splits and lanes. Cursors carry it.
	ID string
	// TablesID identifies the dataset and the state of all of its tables. It is made of ID, the
	// dataset's digest and the pins of all tables. If queries differ only in their columns, their
	// plans have the same TablesID, even if they read different staging tables.
	TablesID string
	// FilesID identifies everything that the plan reads. It is made of TablesID and the file groups
	// of every staging table that the plan reads. Tickets carry it.
	FilesID     string
	Digest      string    // the dataset's digest
	Staging     []Staging // in the order of the relation
	Splits      []Split   // in order, without pruned splits
	Lanes       []Lane
	storedOrder []int  // by split: its position in the stored order, if splits are permuted
	StoredRows  int64  // stored training rows of all splits, before deletes, filters and joins
	Deleted     int64  // how many of StoredRows deletion vectors delete
	Inexact     string // the reason why the stream may not have exactly StoredRows rows; "" if it has
	Pruned      Pruned
	// Planned lists the columns that the catalog has checked. They are not part of the plan's
	// identity, since the rows do not depend on them.
	Planned Columns

	checked []catalog.Field // training columns whose values are checked against the files' buckets if the columns are read
	// deleteFiles is the number of delete files of the training files that are read.
	deleteFiles int
	counted     bool            // the plan is inexact only because of Deleted, so its rows are known nevertheless
	counts      *dataset.Counts // see Counts
}

// Pruned counts what the plan skips because of filters and the sample.
type Pruned struct {
	Splits, Files int
	Rows          int64
}

// Staging is the part of a plan that concerns one staging table.
type Staging struct {
	// Unread means that streams of the plan's columns do not read the table. The table's files are
	// unknown, and no split has a file group in the table.
	Unread    bool
	Groups    []FileGroup
	Pruned    int               // the number of files that the staging filter excluded
	Layout    []resolve.Pairing // how the table's files were matched, for people
	Aligned   string            // which staging partition a training partition is aligned with, for people; "" if partitions are not aligned
	Unaligned Unaligned
	Merged    bool // whether file groups that share files were merged, since the table is small

	checked []catalog.Field
}

// FileGroup is a set of staging files that match the same splits. The rows of the group are read
// once for all of these splits. A group may have no files.
type FileGroup struct {
	Files       []catalog.File // in the catalog's order
	Bytes, Rows int64          // of all Files
}

// Group returns a file group by its number. For resolve.NoGroup, it returns a group without files.
func (s *Staging) Group(number int) FileGroup {
	if number == resolve.NoGroup {
		return FileGroup{}
	}
	return s.Groups[number]
}

// Files returns each file that matches at least one split, once.
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

// fileBytes is about the memory that the description of a plan takes for a file: a catalog.File in a list that grows, and in a map.
const fileBytes = 1 << 10

// DescriptionBytes returns about how much memory a description of the plan takes at most, such as those of packages explain, shape and
// scale: each of them collects the plan's files.
func (p *Plan) DescriptionBytes() int64 {
	files := 0
	for i := range p.Splits {
		files += len(p.Splits[i].Files)
	}
	for i := range p.Staging {
		for _, g := range p.Staging[i].Groups {
			files += len(g.Files)
		}
	}
	return int64(files) * fileBytes
}

// Unaligned counts the training partitions that no staging partition is aligned with, and the rows
// of these partitions. None of these rows has a match.
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
	Files     []FileRange        // all files have the same partition spec; they are in the catalog's order
	Rows      int64              // the rows of all Files, including pruned files
	Groups    []int              // for each staging table: the split's file group, or resolve.NoGroup
}

// FileRange is the rows [From, To) of one data file.
type FileRange struct {
	File     catalog.File
	From, To int64
	Pruned   bool  // the file is not read, since no row can pass the filter
	Ordinal  int64 // in a Source: the number of row From among the stored rows of the split
}

// Range is the rows [From, To) of a split. From and To count the rows of all of the split's Files,
// before any filter.
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
	Planned []int           // ascending field ids of the columns that the catalog has checked; only these may be read
	Filter  *expr.Filter    // selects rows; nil keeps all
	Sample  *Sample         // selects some of the rows that pass Filter; nil keeps all of them
	Checked []catalog.Field // columns whose values must hash to the bucket of their file, if the file has a bucket
	// Ordinals appends a column with each row's number among the stored rows of its
	// split.
	Ordinals bool
	// BatchRows is the number of rows that the consumer takes at a time. Batches may have that many
	// rows, even if the scanner's limit is smaller. If the budget allows, up to Ahead bytes of
	// batches are queued for the consumer. 0 stands for the default.
	BatchRows int
	Ahead     int64
	// Lanes is the number of lanes from which the stream takes rows in turn. The queues of their
	// scans share the default size, but each may hold at least one batch. 0 stands for 1.
	Lanes int
	// StepRows, if positive, is the number of stored rows of a step. Where possible, batches end
	// where steps end. Begun is the number of rows of the first step that precede the source.
	StepRows, Begun int64
	// Starting reports whether the stream has not returned a row yet. While it is true, the scan
	// decodes smaller batches, and only one of them ahead, so that the first rows do not wait for
	// later ones. nil means that it is always false.
	Starting func() bool
	// Coded has the field ids of columns whose texts or binary values may be returned as codes
	// (package batch). If the scan itself needs the values of such a column, it returns values.
	Coded []int
	// Shared makes the scan share stored bytes with other scans of its stream. SharedScans.Expect
	// of package scan sets it. If it is nil, the scan shares nothing.
	Shared SharedRead
	// Cache determines how the scan uses the cache of decoded columns; "" is dataset.CacheRead.
	Cache dataset.CacheUse
	// Spare makes the scan add columns to that cache, if the cache has free room, even when it
	// reads them for the first time. It is set if the structures that are built from the columns
	// are kept, so that there may be no second scan of the columns.
	Spare bool
	// CacheReads counts the reads of the scan from that cache; nil counts nothing.
	CacheReads *CacheReads
	// Asked is called for each row group of a file, with the stored size of the column chunks that
	// the scan decodes. The size does not include chunks from the cache of decoded columns. Asked
	// is called on the scan's goroutines. nil counts nothing.
	Asked func(location string, bytes int64)
	// Complete requires that every file has every column. A file that lacks a column is Corrupt,
	// and no default replaces its values.
	Complete bool
}

// SharedRead is the registration of a scan with the owner of the bytes that scans share. The scan
// may begin later.
type SharedRead interface {
	// Done declares that no scan will read the source, or the rest of the source. It may be called
	// more than once, even during a scan.
	Done()
}

// Training returns the source for a range of a split. The source has the rows of the split's files
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

// Group returns the source for one file group of a staging table. For resolve.NoGroup, it returns a
// source without files.
func (p *Plan) Group(staging, group int) Source {
	s := &p.Staging[staging]
	r := p.Relation.Staging[staging]
	source := Source{Table: r.Pinned, Planned: p.Planned.Staging[staging], Filter: r.Rows, Checked: s.checked}
	for _, f := range s.Group(group).Files {
		source.Files = append(source.Files, FileRange{File: f, To: f.Rows})
	}
	return source
}

// ExactRows returns the total number of rows of a stream of all lanes, and whether this number is
// known.
func (p *Plan) ExactRows() (int64, bool) {
	return p.StoredRows - p.Deleted, p.Inexact == "" || p.counted
}

// Counts returns the number of rows of each lane, or nil if it is unknown before reading. The
// caller must not modify the result.
func (p *Plan) Counts() *dataset.Counts { return p.counts }

// countsOf returns the number of rows of each lane.
func countsOf(lanes []Lane) *dataset.Counts {
	rows := make([]int64, len(lanes))
	for i, l := range lanes {
		rows[i] = l.Rows
	}
	return dataset.NewCounts(rows)
}
