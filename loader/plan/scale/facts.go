// Package scale computes what a training job needs: rates, cores, network, storage, memory, servers and cost. It has the formulas of
// docs/scale.md. It does no I/O, and knows no clock: facts come from the metadata of a plan, and everything else is given or assumed.
package scale

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Facts are what the metadata of a plan says about an epoch that some streams read together.
type Facts struct {
	Plan  string `json:"plan"`  // its id
	Rows  int64  `json:"rows"`  // of an epoch
	Exact bool   `json:"exact"` // false: Rows is before deletes, filters or joins
	// LanesKeepRows is whether each lane has the same rows in all epochs, so that the caches of its server have them.
	LanesKeepRows bool  `json:"lanes_keep_rows"`
	Streams       int   `json:"streams"`
	Lanes         int   `json:"lanes"`
	Splits        int   `json:"splits"`
	StepRows      int64 `json:"step_rows"` // of a batch of one stream; 0: batches are some requests
	// Chosen is whether StepRows is the size that the server chooses, because the query does not say.
	Chosen  bool `json:"chosen,omitempty"`
	Indexed bool `json:"indexed"` // whether the query's batches are, or may be, indexed
	// RowBytes and IndexedBytes estimate the bytes of a row on the wire, plain and indexed.
	RowBytes     float64 `json:"row_bytes"`
	IndexedBytes float64 `json:"indexed_bytes"`
	// TrainingBytes estimates the bytes of a decoded row of the training table.
	TrainingBytes float64 `json:"training_bytes"`
	LaneBytes     int64   `json:"lane_bytes"` // of memory for each open lane, at most
	Training      Reads   `json:"training"`
	Staging       []Entry `json:"staging"` // those that are read
}

// Reads are the training files that the streams of an epoch read without caches, in stored bytes of the columns that they need.
type Reads struct {
	Files int   `json:"files"` // each once
	Bytes int64 `json:"bytes"`
	// StreamFiles and StreamBytes count a file once for each stream that has rows of it, as if each file were one row group.
	StreamFiles int   `json:"stream_files"`
	StreamBytes int64 `json:"stream_bytes"`
}

// Entry is what an epoch reads of a staging entry. A file group is the staging rows of one build side.
type Entry struct {
	Name    string `json:"name"`
	Groups  int    `json:"groups"`
	Files   int    `json:"files"` // of all groups: a file of two groups counts twice
	Bytes   int64  `json:"bytes"` // of the columns, likewise
	Largest int64  `json:"largest"`
	AtOnce  int    `json:"at_once"` // the greatest number of groups that a lane joins at the same time
	Users   int    `json:"users"`   // streams that need a group, of all groups
}

// Of returns the facts of the plan of a query. The columns' sizes may be nil. A stream reads the lanes of its shard. chosen is the
// number of rows of a batch, if the query does not say.
func Of(p *plan.Plan, q dataset.Query, chosen int, sizes *plan.ColumnSizes) (Facts, error) {
	outputs, err := p.Relation.Choose(q.Selection())
	if err != nil {
		return Facts{}, err
	}
	indexed, err := q.Wire.Indexed()
	if err != nil {
		return Facts{}, err
	}
	rows, exact := p.ExactRows()
	if !exact {
		rows = p.StoredRows
	}
	f := Facts{
		Plan: p.ID, Rows: rows, Exact: exact, LanesKeepRows: p.LanesKeepRows(),
		Streams: max(1, q.Shard.Of), Lanes: len(p.Lanes), Splits: len(p.Splits),
		StepRows: int64(q.BatchRows), Indexed: indexed, Staging: []Entry{},
	}
	switch {
	case q.GlobalBatchRows > 0:
		f.StepRows = int64(q.GlobalBatchRows / f.Streams)
	case q.BatchRows == 0 && q.BatchRequests == 0:
		f.StepRows, f.Chosen = int64(chosen), true
	}
	f.read(p, sizes)
	open := p.OpenRowGroups()
	f.LaneBytes = plan.Decoded * open.Bytes
	if stored := p.TrainingBytes(); stored > 0 {
		f.LaneBytes = int64(float64(f.LaneBytes) * float64(f.Training.Bytes) / float64(stored))
	}
	return f, f.measure(p, outputs)
}

// read counts files and file groups, and the streams that need each of them.
func (f *Facts) read(p *plan.Plan, sizes *plan.ColumnSizes) {
	read, groups := files{}, make([]used[int], len(p.Staging))
	for i := range groups {
		groups[i] = used[int]{}
	}
	for lane := range p.Lanes {
		for _, r := range p.Lanes[lane].Ranges {
			read.training(lane%f.Streams, p.Training(r).Files, sizes)
			for i, group := range p.Splits[r.Split].Groups {
				if !p.Staging[i].Unread && group != resolve.NoGroup {
					groups[i].by(lane%f.Streams, group, func() int64 { return sizeOfGroup(p.Staging[i].Groups[group], sizes.Of(i)) })
				}
			}
		}
	}
	for _, u := range read {
		f.Training.Files++
		f.Training.Bytes += u.bytes
		f.Training.StreamFiles += len(u.streams)
		f.Training.StreamBytes += u.bytes * int64(len(u.streams))
	}
	for i := range p.Staging {
		if !p.Staging[i].Unread {
			f.Staging = append(f.Staging, entryOf(p, i, groups[i]))
		}
	}
}

// entryOf describes the file groups of a staging entry that streams need.
func entryOf(p *plan.Plan, i int, groups used[int]) Entry {
	e := Entry{Name: p.Relation.Staging[i].Name, Groups: len(groups), AtOnce: p.StagingUse(i).AtOnce}
	for number, u := range groups {
		e.Files += len(p.Staging[i].Groups[number].Files)
		e.Bytes += u.bytes
		e.Largest = max(e.Largest, u.bytes)
		e.Users += len(u.streams)
	}
	return e
}

// training notes that a stream reads rows of training files.
func (u files) training(stream int, ranges []plan.FileRange, sizes *plan.ColumnSizes) {
	for _, of := range ranges {
		if !of.Pruned {
			used[string](u).by(stream, of.File.Location, func() int64 { return sizeOf(of.File, sizes.Of(resolve.TrainingTable)) })
		}
	}
}

// files are training files, by location.
type files used[string]

// used has, for some things, their stored bytes and the streams that need them.
type used[K comparable] map[K]users

// users are the streams that need some stored bytes.
type users struct {
	bytes   int64
	streams map[int]bool
}

// by notes that a stream needs a thing.
func (u used[K]) by(stream int, key K, bytes func() int64) {
	known, ok := u[key]
	if !ok {
		known = users{bytes: bytes(), streams: map[int]bool{}}
		u[key] = known
	}
	known.streams[stream] = true
}

// sizeOfGroup returns the stored bytes of the columns that are read of a file group.
func sizeOfGroup(g plan.FileGroup, known map[string]int64) (bytes int64) {
	for _, f := range g.Files {
		bytes += sizeOf(f, known)
	}
	return bytes
}

// sizeOf returns the stored bytes of the columns that are read of a file; of the whole file if they are not known.
func sizeOf(f catalog.File, known map[string]int64) int64 {
	if size, ok := known[f.Location]; ok {
		return min(size, f.Bytes)
	}
	return f.Bytes
}

// unpacked is the assumed ratio of the bytes of lists and texts in memory to those in files.
const unpacked = 2

// measure estimates the bytes of a row. Values of fixed-width types have the size of their type. Lists and texts are estimated by the
// stored bytes of a row beyond such values.
func (f *Facts) measure(p *plan.Plan, outputs []resolve.Output) error {
	byTable := map[int][]resolve.Output{}
	requests := 0.0 // bytes of columns that are constant within a request
	for _, o := range outputs {
		table := o.Table
		if o.OfTraining() || o.Made() || table < 0 || table >= len(p.Staging) {
			table = resolve.TrainingTable
		}
		byTable[table] = append(byTable[table], o)
		if o.Request {
			requests += float64(bits(o)) / 8
		}
	}
	trainingRows := int64(0)
	for _, s := range p.Splits {
		for _, file := range s.Files {
			trainingRows += file.To - file.From
		}
	}
	f.TrainingBytes = rowBytes(byTable[resolve.TrainingTable], f.Training.Bytes, trainingRows)
	f.RowBytes, f.IndexedBytes = f.TrainingBytes, f.TrainingBytes
	fewest, read := 1.0, 0
	for i := range p.Staging {
		if p.Staging[i].Unread {
			continue
		}
		rows := int64(0)
		for _, g := range p.Staging[i].Groups {
			rows += g.Rows
		}
		size := rowBytes(byTable[i], f.Staging[read].Bytes, rows)
		read++
		if len(byTable[i]) == 0 {
			continue
		}
		distinct := min(1, float64(rows)/float64(max(1, trainingRows)))
		fewest = min(fewest, distinct)
		f.RowBytes += size
		f.IndexedBytes += min(size, indexBytes+size*distinct)
	}
	if requests > 0 {
		f.IndexedBytes += min(0, indexBytes-requests*(1-fewest))
	}
	if f.RowBytes <= 0 {
		return fault.New(fault.Invalid, "the query has no columns").WithRemedy("name columns, or leave columns out")
	}
	return nil
}

// indexBytes is the size of the index of a row of an indexed table.
const indexBytes = 4

// rowBytes estimates the bytes of some outputs of a table in a row, from the stored bytes of the table's rows.
func rowBytes(outputs []resolve.Output, stored, rows int64) float64 {
	fixed, varies := int64(0), false
	for _, o := range outputs {
		fixed += bits(o)
		varies = varies || variable(o.Type())
	}
	size := float64(fixed) / 8
	if varies && rows > 0 {
		size += max(0, unpacked*(float64(stored)/float64(rows)-size))
	}
	return size
}

// bits returns the size of an output in a row, in bits, without the contents of lists and texts.
func bits(o resolve.Output) int64 {
	width := plan.MinRowBits(dataset.WirePlain, []resolve.Output{o})
	if o.Null {
		width++
	}
	return width
}

// variable reports whether values of a type differ in size.
func variable(dt arrow.DataType) bool {
	switch dt := dt.(type) {
	case *arrow.StructType:
		for _, f := range dt.Fields() {
			if variable(f.Type) {
				return true
			}
		}
		return false
	case *arrow.FixedSizeListType:
		return variable(dt.Elem())
	case arrow.OffsetsDataType:
		return true
	default:
		return false
	}
}
