package warehouse

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/puffin"
	"github.com/apache/iceberg-go/table/dv"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/scenario"
)

// Erasure is a way of deleting rows of a table.
type Erasure string

// The kinds of deletes. Rows that are deleted together are in one delete file.
const (
	ByPosition     Erasure = "position deletes"
	ByPositionNear Erasure = "position deletes of a partition" // without naming their data files
	ByVector       Erasure = "deletion vectors"
	ByEquality     Erasure = "equality deletes"
)

// erasures adds deletes to a history. Deletes need format version 2 or later.
func (m *maker) erasures() {
	if m.IntN(3) > 0 {
		return
	}
	for range 1 + m.IntN(3) {
		commit := m.IntN(len(m.Lost) + 1)
		if commit == len(m.Lost) || m.format(commit) < 2 {
			continue
		}
		ways := []Erasure{ByPosition, ByPositionNear, ByEquality, ByEquality}
		if m.Format == 3 {
			ways = []Erasure{ByVector, ByVector, ByEquality}
		}
		m.Erased = append(m.Erased, Erased{At: commit, By: ways[m.IntN(len(ways))]})
	}
}

// Erased says that rows were deleted in the snapshot of a commit.
type Erased struct {
	At int
	By Erasure
}

// deleteEntry is a live delete file.
type deleteEntry struct {
	iceberg.DataFile
	commit int
	data   string // the data file of a vector
}

// erase writes the deletes of a commit. The files of the commit must have been written.
func (w *table) erase(number int) error {
	for _, e := range w.Erased {
		if e.At != number {
			continue
		}
		var err error
		switch e.By {
		case ByPosition, ByPositionNear:
			err = w.erasePositions(number, e.By == ByPosition)
		case ByVector:
			err = w.eraseByVector(number)
		case ByEquality:
			err = w.eraseEqual(number)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.By, err)
		}
	}
	return nil
}

// victims chooses rows of a live file and marks them as deleted.
func (w *table) victims(file int) []int {
	f := &w.Files[file]
	if f.Deleted == nil {
		f.Deleted = make([]bool, f.Rows.NumRows())
	}
	var chosen []int
	for row := range f.Deleted {
		if w.IntN(3) == 0 {
			chosen = append(chosen, row)
			f.Deleted[row] = true
		}
	}
	return chosen
}

// erasePositions deletes rows of some files of a partition with a position delete file,
// which may name its only data file.
func (w *table) erasePositions(number int, named bool) error {
	of := w.IntN(len(w.Files))
	type deletedRow struct {
		path string
		row  int64
	}
	var deleted []deletedRow
	for i, f := range w.Files {
		near := f.Spec == w.Files[of].Spec && reflect.DeepEqual(f.Partition, w.Files[of].Partition)
		if i == of || !named && near && w.IntN(2) == 0 {
			for _, row := range w.victims(i) {
				deleted = append(deleted, deletedRow{f.Location, int64(row)})
			}
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	slices.SortFunc(deleted, func(a, b deletedRow) int {
		return bytes.Compare(fmt.Appendf(nil, "%s %9d", a.path, a.row), fmt.Appendf(nil, "%s %9d", b.path, b.row))
	})
	paths, rows := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for _, p := range deleted {
		paths.Append(p.path)
		rows.Append(p.row)
	}
	fields := []arrow.Field{reserved("file_path", arrow.BinaryTypes.String, 2147483546), reserved("pos", arrow.PrimitiveTypes.Int64, 2147483545)}
	content, err := w.writers[w.IntN(2)].write(array.NewRecordBatch(arrow.NewSchema(fields, nil), []arrow.Array{paths.NewArray(), rows.NewArray()}, int64(len(deleted))))
	if err != nil {
		return err
	}
	b, err := w.deleteFile(number, of, ByPosition, content, len(deleted))
	if err != nil {
		return err
	}
	switch path := []byte(w.Files[of].Location); {
	case named && w.IntN(2) == 0:
		b.ReferencedDataFile(w.Files[of].Location)
	case named:
		b.LowerBoundValues(map[int][]byte{2147483546: path}).UpperBoundValues(map[int][]byte{2147483546: path})
	case w.IntN(4) == 0: // truncates bounds within the common prefix of all paths
		cut := path[:len(w.scheme)+len(w.dir)]
		b.LowerBoundValues(map[int][]byte{2147483546: cut}).UpperBoundValues(map[int][]byte{2147483546: cut})
	}
	w.deletes = append(w.deletes, deleteEntry{DataFile: b.Build(), commit: number})
	return nil
}

// reserved is a required column with a field id.
func reserved(name string, t arrow.DataType, id int) arrow.Field {
	return arrow.Field{Name: name, Type: t, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})}
}

// deleteFile writes a delete file with some rows, for the partition of a data file.
func (w *table) deleteFile(number, of int, kind Erasure, content []byte, rows int) (*iceberg.DataFileBuilder, error) {
	is, format, extension := iceberg.EntryContentPosDeletes, iceberg.ParquetFile, "parquet"
	switch kind {
	case ByVector:
		format, extension = iceberg.PuffinFile, "puffin"
	case ByEquality:
		is = iceberg.EntryContentEqDeletes
	case ByPosition, ByPositionNear:
	}
	part := w.Files[of].Part
	spec, err := w.metadata.GetSpecByID(part.Spec)
	if err != nil {
		return nil, err
	}
	values, err := w.partition(spec, number, part)
	if err != nil {
		return nil, err
	}
	location, err := w.put(fmt.Sprintf("data/%08x-%d-deletes.%s", w.Uint32(), number, extension), content)
	if err != nil {
		return nil, err
	}
	return iceberg.NewDataFileBuilder(*spec, is, location, format, values, w.logicalTypes(spec, number), nil, int64(rows), int64(len(content)))
}

// eraseByVector deletes rows of a file with a deletion vector that replaces an older one.
func (w *table) eraseByVector(number int) error {
	of := w.IntN(len(w.Files))
	w.victims(of)
	w.deletes = slices.DeleteFunc(w.deletes, func(d deleteEntry) bool { return d.data == w.Files[of].Location })
	set := dv.NewRoaringPositionBitmap()
	for row, deleted := range w.Files[of].Deleted {
		if deleted && !w.equally[rowOf{of, row}] {
			set.Set(uint64(row))
		}
	}
	if set.IsEmpty() {
		return nil
	}
	blob, err := dv.SerializeDV(set)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	p, err := puffin.NewWriter(&out)
	if err != nil {
		return err
	}
	meta, err := p.AddBlob(puffin.BlobMetadataInput{
		Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1, Fields: []int32{},
		Properties: map[string]string{"cardinality": strconv.FormatInt(set.Cardinality(), 10), "referenced-data-file": w.Files[of].Location},
	}, blob)
	if err == nil {
		err = p.Finish()
	}
	if err != nil {
		return err
	}
	b, err := w.deleteFile(number, of, ByVector, out.Bytes(), int(set.Cardinality()))
	if err != nil {
		return err
	}
	b.ReferencedDataFile(w.Files[of].Location).ContentOffset(meta.Offset).ContentSizeInBytes(meta.Length)
	w.deletes = append(w.deletes, deleteEntry{DataFile: b.Build(), commit: number, data: w.Files[of].Location})
	return nil
}

// rowOf is a row of a file.
type rowOf struct{ file, row int }

// eraseEqual chooses a row of an older file, and deletes all rows of older files that equal it in
// some columns. The deletes apply to the row's partition or, if the spec has no fields, to the
// whole table.
func (w *table) eraseEqual(number int) error {
	of := w.IntN(len(w.Files))
	if w.Sequence(w.Files[of].Commit-1) >= w.Sequence(number) {
		return nil
	}
	stored, err := w.stored(number)
	if err != nil {
		return err
	}
	columns := slices.DeleteFunc(stored, func(p physical) bool { return !w.comparable(p) })
	w.Shuffle(len(columns), func(i, k int) { columns[i], columns[k] = columns[k], columns[i] })
	if len(columns) == 0 {
		return nil
	}
	columns = columns[:1+w.IntN(min(2, len(columns)))]
	like := w.IntN(int(w.Files[of].Rows.NumRows()))
	one, err := batch.Filter(w.Files[of].Rows, []int32{int32(like)}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	defer one.Release()
	rows, err := storedRows(columns, one, one)
	if err != nil {
		return err
	}
	defer rows.Release()
	content, err := w.writers[w.IntN(2)].write(rows)
	if err != nil {
		return err
	}
	b, err := w.deleteFile(number, of, ByEquality, content, 1)
	if err != nil {
		return err
	}
	ids := make([]int, len(columns))
	for i, p := range columns {
		ids[i] = p.ID
	}
	w.deletes = append(w.deletes, deleteEntry{DataFile: b.EqualityFieldIDs(ids).Build(), commit: number})
	w.markEqual(number, of, columns, scenario.Values(one)[0])
	return nil
}

// comparable reports whether equality deletes may use a column. Floats may not be used, because
// they have special rules for equality.
func (w *table) comparable(p physical) bool {
	if p.from == gone || p.was || arrow.IsNested(p.arrow.Type.ID()) || p.arrow.Type.ID() == arrow.FLOAT32 || p.arrow.Type.ID() == arrow.FLOAT64 {
		return false
	}
	return !slices.ContainsFunc(w.Changes, func(x SchemaChange) bool {
		return x.Column == w.fields[p.from].Name && x.Kind == Replaced
	})
}

// markEqual marks the rows that have the same values as a given row in some columns.
func (w *table) markEqual(number, of int, columns []physical, like []any) {
	global := len(w.specs[w.Files[of].Spec]) == 0
	for i := range w.Files {
		f := &w.Files[i]
		near := f.Spec == w.Files[of].Spec && reflect.DeepEqual(f.Partition, w.Files[of].Partition)
		if w.Sequence(f.Commit-1) >= w.Sequence(number) || !near && !global {
			continue
		}
		for row, values := range scenario.Values(f.Rows) {
			if slices.ContainsFunc(columns, func(p physical) bool { return !reflect.DeepEqual(values[p.from], like[p.from]) }) {
				continue
			}
			if f.Deleted == nil {
				f.Deleted = make([]bool, f.Rows.NumRows())
			}
			if !f.Deleted[row] {
				w.equally[rowOf{i, row}] = true
			}
			f.Deleted[row] = true
		}
	}
}

// deleteManifests writes the manifests of all live delete files, one per spec.
func (w *table) deleteManifests(number int) ([]iceberg.ManifestFile, error) {
	var out []iceberg.ManifestFile
	bySpec := map[int32][]deleteEntry{}
	var specs []int32
	for _, d := range w.deletes {
		if len(bySpec[d.SpecID()]) == 0 {
			specs = append(specs, d.SpecID())
		}
		bySpec[d.SpecID()] = append(bySpec[d.SpecID()], d)
	}
	for _, id := range specs {
		spec, err := w.metadata.GetSpecByID(int(id))
		if err != nil {
			return nil, err
		}
		var content bytes.Buffer
		plain, with := w.unspelled(spec, w.at(number))
		m, err := iceberg.NewManifestWriter(w.format(number), &content, plain, with, w.ids[number], iceberg.WithManifestWriterContent(iceberg.ManifestContentDeletes))
		if err != nil {
			return nil, err
		}
		for _, d := range bySpec[id] {
			sequence := w.Sequence(d.commit)
			entry := iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &w.ids[d.commit], &sequence, &sequence, d.DataFile)
			if d.commit == number {
				err = m.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &w.ids[d.commit], nil, nil, d.DataFile))
			} else {
				err = m.Existing(entry)
			}
			if err != nil {
				return nil, err
			}
		}
		if err := m.Close(); err != nil {
			return nil, err
		}
		location, err := w.put(fmt.Sprintf("metadata/%016x-m1.avro", w.Uint64()), w.spell(content.Bytes(), with != w.at(number)))
		if err != nil {
			return nil, err
		}
		file, err := m.ToManifestFile(w.scheme+filepath.Join(w.dir, location[len(w.scheme)+len(w.dir):]), int64(content.Len()), iceberg.WithManifestFileContent(iceberg.ManifestContentDeletes))
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}
