package plan

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Sample selects rows of a source, by their values and by their positions in the table's files. The
// selection does not depend on the run, the order, the batches or the server.
type Sample struct {
	// From and To are the bounds of the hash positions that are kept, as in dataset.HashRange. The
	// position of a row is the hash of its values in Columns (bucket.Positions). If Columns is
	// empty, this condition keeps all rows.
	From, To float64
	Columns  []string
	// Rate is the share of rows to keep, of the rows for which Where is true (a nil Where is true
	// for all rows). 1 keeps all of these rows, and 0 keeps none. Whether a row is drawn depends on
	// its file (catalog.File.OrderedAs) and on its position in the file.
	Rate  float64
	Where *expr.Filter
}

// Draw returns the plan with a share of its rows, as if its query had a sample of that rate. The plan must have no sample. The result
// shares everything else with the plan.
func (p *Plan) Draw(rate float64) *Plan {
	out := *p
	out.Sample, out.Rows.Sample = &Sample{To: 1, Rate: rate}, (&dataset.Sample{Rate: rate}).Normal()
	out.Inexact, out.counted, out.counts = out.inexact(), false, nil
	out.setIDs()
	return &out
}

// Reads returns the names of the columns that Keep reads, without duplicates.
func (s *Sample) Reads() []string {
	if s == nil {
		return nil
	}
	reads := slices.Clone(s.Columns)
	for _, name := range s.Where.Columns() {
		if !slices.Contains(reads, name) {
			reads = append(reads, name)
		}
	}
	return reads
}

// Computes reports whether the sample's condition is computed, so that rows may cause errors.
func (s *Sample) Computes() bool { return s != nil && s.Where.Computes() }

// Keep overwrites dst with the indices of the rows of a batch that the sample keeps, and returns
// dst. The batch has rows of one file, from row number first on; location is the file's OrderedAs.
// It must have the columns that Reads names, and may have other columns. pass contains the
// ascending indices of the rows to consider; dst may be the same slice as pass. A nil sample keeps
// all of these rows. Values that are computed take room; see expr.Filter.
func (s *Sample) Keep(dst []int32, rows arrow.RecordBatch, pass []int32, location string, first int64, room expr.Room) ([]int32, error) { //nolint:revive // rows of a batch, where they are in a file, and memory
	if s == nil {
		return append(dst[:0], pass...), nil
	}
	dst, err := s.inRange(dst, rows, pass)
	if err != nil || s.Rate >= 1 {
		return dst, err
	}
	where, err := s.Where.Keep(rows, dst, nil, room)
	if err != nil {
		return dst, err
	}
	file := xxhash.Sum64String(location)
	kept, at := dst[:0], 0
	for _, row := range dst {
		for at < len(where) && where[at] < row {
			at++
		}
		drawn := at < len(where) && where[at] == row
		if !drawn || lot(file, first+int64(row)) < s.Rate {
			kept = append(kept, row)
		}
	}
	return kept, nil
}

// inRange keeps the rows whose hash position is between From and To.
func (s *Sample) inRange(dst []int32, rows arrow.RecordBatch, pass []int32) ([]int32, error) {
	dst = append(dst[:0], pass...)
	if len(s.Columns) == 0 || len(pass) == 0 {
		return dst, nil
	}
	columns := make([]arrow.Array, len(s.Columns))
	for i, name := range s.Columns {
		at := rows.Schema().FieldIndices(name)
		if len(at) != 1 {
			return dst, fault.New(fault.Internal, "a sample by column %s finds a batch with %d columns of that name", name, len(at))
		}
		columns[i] = rows.Column(at[0])
	}
	positions, err := bucket.Positions(make([]float64, 0, rows.NumRows()), columns...)
	if err != nil {
		return dst, fault.Op(err, "sample by %v", s.Columns)
	}
	return slices.DeleteFunc(dst, func(row int32) bool { return !bucket.InRange(positions[row], s.From, s.To) }), nil
}

// lotBits is the number of hash bits that a float64 represents exactly.
const lotBits = 53

// lot returns the draw of a row, in [0, 1).
func lot(file uint64, row int64) float64 {
	return float64(bucket.Mix(file+bucket.Mix(uint64(row)))>>(64-lotBits)) / (1 << lotBits)
}
