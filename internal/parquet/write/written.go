package write

import (
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// WrittenFile describes a complete file.
type WrittenFile struct {
	Rows, Bytes int64
	Splits      []int64 // offsets of the row groups
	FileMetrics
	// Encodings are the names of the encodings that were chosen, by field id of primitive fields.
	// It is empty for a file without rows.
	Encodings map[int]string
}

// FileMetrics are statistics by field id of the primitive fields that were encoded. Counts are
// those of the footer, in which a list that is null or empty counts as one null value of its
// element.
type FileMetrics struct {
	ColumnBytes  map[int]int64 // stored size, including page headers
	Values       map[int]int64 // number of values, including nulls
	Nulls        map[int]int64
	NaNs         map[int]int64  // only for floats and doubles
	Lower, Upper map[int][]byte // in Iceberg's single-value serialization; absent for columns without values
}

func newFileMetrics() FileMetrics {
	return FileMetrics{
		ColumnBytes: map[int]int64{}, Values: map[int]int64{}, Nulls: map[int]int64{}, NaNs: map[int]int64{},
		Lower: map[int][]byte{}, Upper: map[int][]byte{},
	}
}

// describe returns the description of the complete file.
func (w *DataWriter) describe(footer *metadata.FileMetaData) WrittenFile {
	m, encodings := newFileMetrics(), map[int]string{}
	before := footer.Schema.NumColumns() - len(w.leaves()) // number of primitive columns of the base
	for i, l := range w.leaves() {
		m.ColumnBytes[l.id], m.Values[l.id], m.Nulls[l.id] = 0, 0, 0
		for _, group := range footer.RowGroups {
			described := group.Columns[before+i].MetaData
			m.ColumnBytes[l.id] += described.TotalCompressedSize
			m.Values[l.id] += described.NumValues
			if s := described.Statistics; s != nil && s.NullCount != nil {
				m.Nulls[l.id] += *s.NullCount
			} else {
				m.Nulls[l.id] = unknown
			}
		}
		if m.Nulls[l.id] < 0 {
			delete(m.Nulls, l.id)
		}
		if n := l.bounds.nans(); n >= 0 {
			m.NaNs[l.id] = n
		}
		if lower := l.bounds.lower(); lower != nil {
			m.Lower[l.id] = lower
		}
		if upper := l.bounds.upper(); upper != nil {
			m.Upper[l.id] = upper
		}
	}
	leaf := w.leaves()
	for _, s := range w.settings {
		for _, e := range s.encodings {
			encodings[leaf[0].id], leaf = e.String(), leaf[1:]
		}
	}
	return WrittenFile{Rows: w.rows, Bytes: w.file.Bytes(), Splits: w.file.Splits(), FileMetrics: m, Encodings: encodings}
}

// unknown is so small that adding counts to it leaves it negative.
const unknown = -1 << 62
