package parquet

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

// checkFooter returns the number of structs in a stored footer, or an error if the footer claims
// more elements than it holds.
func checkFooter(stored []byte) (structs int64, err error) {
	walk := thrift.Reader{Rest: stored}
	if walk.Skip(thrift.Struct, maxFooterDepth) != nil {
		return 0, errFooter
	}
	return walk.Structs, nil
}

// CheckFooterOf returns an error if the footer of a file claims more elements than it holds, or is
// nested too deeply: the library would allocate whatever the footer claims. size is the size of the
// file. CheckFooterOf does not look for other faults, which the library finds.
func CheckFooterOf(file io.ReaderAt, size int64) error {
	end := make([]byte, trailer)
	if _, err := file.ReadAt(end, size-trailer); size < trailer || err != nil {
		return nil //nolint:nilerr // not a Parquet file
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if string(end[trailer-len(magic):]) != magic || length > size-trailer {
		return nil
	}
	stored := make([]byte, length)
	if _, err := file.ReadAt(stored, size-trailer-length); err != nil {
		return nil //nolint:nilerr // the library reads it again
	}
	_, err := checkFooter(stored)
	if err == nil {
		_, _, err = knownTypes(stored)
	}
	return err
}

// checkSchema returns an error if the repetition type of a field is missing or unknown (the library
// would treat such a field as required), or if the unit of a timestamp differs between its logical
// and its converted type.
func checkSchema(meta *metadata.FileMetaData) error {
	for _, e := range meta.FileMetaData.Schema[1:] { // without the root
		if e.RepetitionType == nil || *e.RepetitionType < 0 || parquet.Repetition(*e.RepetitionType) > parquet.Repetitions.Repeated {
			return fmt.Errorf("column %s has no valid repetition type", e.Name)
		}
		if e.LogicalType == nil || e.LogicalType.TIMESTAMP == nil || e.LogicalType.TIMESTAMP.Unit == nil || e.ConvertedType == nil {
			continue
		}
		older, unit := schema.ConvertedType(*e.ConvertedType), e.LogicalType.TIMESTAMP.Unit
		if older == schema.ConvertedTypes.TimestampMillis && unit.MILLIS == nil || older == schema.ConvertedTypes.TimestampMicros && unit.MICROS == nil {
			return fmt.Errorf("column %s has two different timestamp units", e.Name)
		}
	}
	return nil
}

// checkGroups returns an error if a column chunk reaches past the end of the data, a row
// group does not have the columns of the schema, or the row counts do not add up.
func (f *Footer) checkGroups(end int64) error {
	columns := f.meta.Schema.NumColumns()
	var rows int64
	f.groups = make([]RowGroup, len(f.meta.RowGroups))
	for i, g := range f.meta.RowGroups {
		if g.NumRows < 0 || len(g.Columns) != columns {
			return fmt.Errorf("row group %d has %d rows, %d columns, the schema has %d", i, g.NumRows, len(g.Columns), columns)
		}
		group := RowGroup{FirstRow: rows, Rows: g.NumRows}
		for leaf := range columns {
			stored, err := f.checkChunk(i, leaf, end)
			if err != nil {
				return err
			}
			group.Bytes += stored
		}
		f.groups[i] = group
		if rows += g.NumRows; rows < 0 {
			return fmt.Errorf("the row counts of row groups up to %d overflow", i)
		}
	}
	if rows != f.meta.NumRows {
		return fmt.Errorf("the file has %d rows, its row groups have %d", f.meta.NumRows, rows)
	}
	return nil
}

func (f *Footer) checkChunk(group, leaf int, end int64) (stored int64, err error) {
	chunk := f.meta.RowGroups[group].Columns[leaf]
	switch {
	case chunk.MetaData == nil:
		return 0, fmt.Errorf("row group %d has no metadata for column %d", group, leaf)
	case chunk.FilePath != nil && *chunk.FilePath != "":
		return 0, fmt.Errorf("column %d of row group %d lies in another file, %s", leaf, group, *chunk.FilePath)
	}
	if f.meta.RowGroups[group].NumRows == 0 { // a row group without rows is never read, and writers put arbitrary values into its chunks
		return 0, nil
	}
	column := f.meta.Schema.Column(leaf)
	at := f.chunkSpan(group, leaf)
	switch {
	case int(chunk.MetaData.Type) != int(column.PhysicalType()) && !f.unknown.physical[leaf]:
		return 0, fmt.Errorf("column %s of row group %d has another type than in the schema", column.Name(), group)
	case chunk.MetaData.TotalUncompressedSize < 0:
		return 0, fmt.Errorf("column %s of row group %d has %d bytes before compression", column.Name(), group, chunk.MetaData.TotalUncompressedSize)
	case at.start < int64(len(magic)) || at.length < 0 || at.length > end-at.start:
		return 0, fmt.Errorf("column %s of row group %d lies at bytes %d to %d, data ends at %d", column.Name(), group, at.start, at.end(), end)
	case column.MaxRepetitionLevel() == 0 && chunk.MetaData.NumValues != f.meta.RowGroups[group].NumRows:
		return 0, fmt.Errorf("column %s of row group %d has %d values, the group has %d rows", column.Name(), group,
			chunk.MetaData.NumValues, f.meta.RowGroups[group].NumRows)
	}
	return at.length, nil
}
