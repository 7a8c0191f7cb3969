package chunkcache

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
)

// codesView is a view of a unit's dictionary, for the arrays of a fill. The zero value has no view.
type codesView struct {
	decoded arrow.ArrayData // the decoder's dictionary, which has the same values
	view    arrow.ArrayData
}

// end ends the view. It is idempotent.
func (v *codesView) end() {
	if v.view != nil {
		v.view.Release()
	}
	*v = codesView{}
}

// codesOf returns the codes of a dictionary array, or the array itself if it has no codes. The
// caller releases the result.
func codesOf(a arrow.Array) arrow.Array {
	if !batch.IsCoded(a) {
		a.Retain()
		return a
	}
	of := a.Data()
	data := array.NewData(of.DataType().(*arrow.DictionaryType).IndexType, of.Len(), of.Buffers(), nil, a.NullN(), of.Offset()) //nolint:forcetypeassert // it is coded
	defer data.Release()
	return array.MakeFromData(data)
}

// withDictionary is the inverse of codesOf.
func withDictionary(codes arrow.Array, dictionary arrow.ArrayData) arrow.Array {
	of, values := codes.Data(), dictionary.(*array.Data) //nolint:forcetypeassert // arrow has no other implementation
	dt := &arrow.DictionaryType{IndexType: of.DataType(), ValueType: values.DataType()}
	data := array.NewDataWithDictionary(dt, of.Len(), of.Buffers(), codes.NullN(), of.Offset(), values)
	defer data.Release()
	return array.MakeFromData(data)
}

// dictionaryOf returns the dictionary that all arrays share, or nil if all arrays have plain
// values. ok is false if the arrays have different dictionaries, or if only some have plain values.
func dictionaryOf(arrays []arrow.Array) (dictionary arrow.ArrayData, ok bool) {
	for i, a := range arrays {
		var of arrow.ArrayData
		if batch.IsCoded(a) {
			of = a.Data().Dictionary()
		}
		if i > 0 && of != dictionary {
			return nil, false
		}
		dictionary = of
	}
	return dictionary, true
}

// newDictionary makes a segment from a dictionary. The segment owns the dictionary's memory.
func newDictionary(c *ColumnCache, values arrow.Array) *segment {
	bytes := sizeOf(values)
	values.NullN() // count nulls now: see Fill.Add
	return &segment{cache: c, array: values, tally: tally{bytes: bytes, fixed: bytes}}
}

// mixed reports whether some rows of the unit are codes and others values.
func (u *cachedUnit) mixed() bool {
	coded := 0
	for _, s := range u.content.segments {
		if s.coded {
			coded++
		}
	}
	return 0 < coded && coded < len(u.content.segments)
}

// slice returns the rows of a span, with their dictionary. The caller has a view of all segments, and releases the result.
func (u *cachedUnit) slice(p rowSpan) arrow.Array {
	rows := array.NewSlice(p.segment.array, p.from-p.segment.from, p.to-p.segment.from)
	if !p.segment.coded {
		return rows
	}
	defer rows.Release()
	return withDictionary(rows, u.content.dictionary.array.Data())
}

// lacks reports whether the unit lacks some of the given rows and was not dropped.
func (f *Fill) lacks(from, to int64) bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.ended = f.ended || !f.isCurrent()
	return !f.ended && !f.unit.content.spans.cover(from, to)
}

// shareDictionary makes f.codes a view of the unit's dictionary, which has the same values as the
// dictionary of a decoded array: all scans of a row group find the same dictionary. If the unit has
// no dictionary yet, it gets a copy of the decoded one. The decoder's own dictionary cannot be
// kept, because its memory is charged to the scan and ends with the row group. If the unit cannot
// get the dictionary, shareDictionary ends the fill and returns false.
func (f *Fill) shareDictionary(d Decoded) bool {
	decoded := d.Array.Data().Dictionary()
	if f.codes.decoded == decoded {
		return true
	}
	f.codes.end()
	values := array.MakeFromData(decoded)
	defer values.Release()
	for !f.ended {
		s := f.viewDictionary()
		switch {
		case s == nil:
			f.addDictionary(d, values)
		case !array.Equal(s.array, values): // one of the two scans has read damaged data
			f.discard(s)
		default:
			f.codes = codesView{decoded: decoded, view: s.wrapped()}
			return true
		}
	}
	return false
}

// viewDictionary adds a view to the unit's dictionary and returns the dictionary, or nil if the
// unit has none. It ends the fill if the unit was dropped.
func (f *Fill) viewDictionary() *segment {
	var e effects
	f.cache.mu.Lock()
	defer func() {
		f.cache.mu.Unlock()
		f.cache.apply(e)
	}()
	s := f.unit.content.dictionary
	if f.ended = !f.isCurrent(); f.ended || s == nil {
		return nil
	}
	s.view(&e)
	return s
}

// addDictionary adds a copy of a dictionary to the unit, unless another scan was faster. It ends the fill if there is
// no room or no memory.
func (f *Fill) addDictionary(d Decoded, values arrow.Array) {
	if !f.hasRoom(sizeOf(values)) {
		return
	}
	copied, held := d.Copy(values)
	if copied == nil {
		f.Abandon()
		return
	}
	s := newDictionary(f.cache, copied)
	s.held = held
	if !f.install(s) {
		copied.Release()
		held.Release()
	}
}

// hasRoom makes room for a dictionary before it is copied. It ends the fill if there is none.
func (f *Fill) hasRoom(bytes int64) bool {
	var e effects
	f.cache.mu.Lock()
	defer func() {
		f.cache.mu.Unlock()
		f.cache.apply(e)
	}()
	total := f.unit.content.total
	total.add(tally{bytes: bytes, fixed: bytes})
	return f.makeRoom(bytes, total, &e)
}

// install sets the unit's dictionary, unless the unit already has one. It ends the fill if the unit
// was dropped or there is no room.
func (f *Fill) install(s *segment) bool {
	c, u := f.cache, f.unit
	var e effects
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
		c.apply(e)
	}()
	if f.ended = !f.isCurrent(); f.ended || u.content.dictionary != nil {
		return false
	}
	total := u.content.total
	total.add(s.tally)
	if !f.makeRoom(s.bytes, total, &e) {
		return false
	}
	c.rates.add(u.of, s.tally)
	c.count(u, s.tally, tally{})
	s.kept = true
	u.content.dictionary = s
	e.idle += s.bytes
	return true
}

// discard ends the fill and a view of the unit's dictionary. It also drops the unit, unless a scan
// is reading the unit.
func (f *Fill) discard(view *segment) {
	c := f.cache
	var e effects
	c.mu.Lock()
	view.endView(&e)
	if f.ended = true; f.unit.pins == 0 {
		c.drop(f.unit, &e)
	}
	c.mu.Unlock()
	c.apply(e)
}
