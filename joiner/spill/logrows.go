package spill

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// loadedRows is a batch of a log's staging rows in memory.
type loadedRows struct {
	at     storedBatch
	rows   *array.Struct
	places []int32 // by row: its position in picked plus 1; 0: not picked
	picked []int32 // the rows that go to the dictionary
	base   int32   // number of rows in the dictionary before picked, without row 0
}

// pick is a staging row of the dictionary.
type pick struct {
	from  *loadedRows // nil: row 0
	place int32       // position in from.picked plus 1
}

// setDictionary builds the dictionary and converts refs. At first, refs has the start of each
// wanted staging row: its position in the log plus 1, or 0 for no row. At the end, refs has the
// number of that row in the dictionary. rows has the batch's row for each element of refs; nil
// means that element i belongs to row i.
func (r *logReader) setDictionary(ctx context.Context, rows, refs []int32) error {
	used, err := r.pickRows(ctx, rows, refs)
	if err != nil {
		return err
	}
	if err := r.gatherRows(ctx, used); err != nil {
		return err
	}
	for i, p := range r.picks {
		if p.from != nil {
			refs[i] = p.from.base + p.place
		}
	}
	for _, l := range used {
		for _, row := range l.picked {
			l.places[row] = 0
		}
		l.picked = l.picked[:0]
	}
	clear(r.picks)
	r.keepFurthest()
	return nil
}

// pickRows loads the wanted staging rows, and picks each of them once. It returns the batches that
// have picked rows, in the order in which their first rows were picked.
func (r *logReader) pickRows(ctx context.Context, rows, starts []int32) ([]*loadedRows, error) {
	r.picks = resize(r.picks, len(starts))
	var used []*loadedRows
	for i, start := range starts {
		r.picks[i] = pick{}
		if start == 0 {
			continue
		}
		row := i
		if rows != nil {
			row = int(rows[i])
		}
		l, err := r.loadRows(ctx, &r.slices[r.slice[row]], int64(start)-1)
		if err != nil {
			return nil, err
		}
		at := int64(start) - 1 - l.at.from
		if l.places[at] == 0 {
			if len(l.picked) == 0 {
				used = append(used, l)
			}
			l.picked = append(l.picked, int32(at))
			l.places[at] = int32(len(l.picked))
		}
		r.picks[i] = pick{from: l, place: l.places[at]}
	}
	return used, nil
}

// gatherRows builds the dictionary: row 0, then the picked rows.
func (r *logReader) gatherRows(ctx context.Context, used []*loadedRows) error {
	row0 := r.log.sliced.row0
	segments := []batch.Segment{{Values: row0, Rows: 1}}
	rows := int32(0)
	for _, l := range used {
		l.base = rows
		rows += int32(len(l.picked))
		segments = append(segments, batch.Segment{Values: l.rows, Indices: l.picked})
	}
	r.releaseDictionary()
	g := batch.NewGatherer(r.log.sliced.opts.allocator())
	defer g.Release()
	bytes, err := g.Size(row0.DataType(), segments)
	if err != nil {
		return err
	}
	if err := r.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	r.bytes = bytes
	made, err := g.Gather(row0.DataType(), segments)
	if err != nil {
		return err
	}
	r.dictionary = made.(*array.Struct)
	return nil
}

func (r *logReader) releaseDictionary() {
	if r.dictionary != nil {
		r.dictionary.Release()
		r.dictionary = nil
	}
	r.held.Shrink(r.bytes)
	r.bytes = 0
}

// placeSize is the bytes of a loaded row's entry in places.
const placeSize = 4

// loadRows returns the batch that holds a staging row of a slice's log. Rows of the log are
// numbered from 0.
func (r *logReader) loadRows(ctx context.Context, s *sliceReader, row int64) (*loadedRows, error) {
	for _, l := range slices.Backward(s.loaded) {
		if row >= l.at.from && row < l.at.from+l.at.rows {
			return l, nil
		}
	}
	i, _ := s.rows.batches.find(row)
	at := s.rows.batches[i]
	bytes := at.bytes + at.rows*placeSize
	if err := r.held.GrowWait(ctx, bytes); err != nil {
		return nil, err
	}
	b, err := r.log.store.Read(at.number)
	if err != nil {
		r.held.Shrink(bytes)
		return nil, err
	}
	defer b.Release()
	l := &loadedRows{at: at, rows: structOf(r.log.sliced.row0.DataType(), b), places: make([]int32, at.rows)}
	s.loaded = append(s.loaded, l)
	return l, nil
}

// structOf returns the columns of a batch as the fields of a struct.
func structOf(dt arrow.DataType, b arrow.RecordBatch) *array.Struct {
	fields := make([]arrow.ArrayData, b.NumCols())
	for i, c := range b.Columns() {
		fields[i] = c.Data()
	}
	whole := array.NewData(dt, int(b.NumRows()), []*memory.Buffer{nil}, fields, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole)
}

// keepFurthest releases all batches of staging rows except the last one in each slice's log, which
// probably has the next rows.
func (r *logReader) keepFurthest() {
	for i := range r.slices {
		s := &r.slices[i]
		if len(s.loaded) < 2 {
			continue
		}
		furthest := 0
		for k, l := range s.loaded {
			if l.at.from > s.loaded[furthest].at.from {
				furthest = k
			}
		}
		s.loaded[0], s.loaded[furthest] = s.loaded[furthest], s.loaded[0]
		for _, l := range s.loaded[1:] {
			r.releaseRows(l)
		}
		clear(s.loaded[1:])
		s.loaded = s.loaded[:1]
	}
}

func (r *logReader) releaseRows(l *loadedRows) {
	l.rows.Release()
	r.held.Shrink(l.at.bytes + l.at.rows*placeSize)
}
