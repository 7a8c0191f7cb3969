package scan_test

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// put writes rows as a file under a name.
func (r *rig) put(name string, rows arrow.RecordBatch, ids ...int) *catalog.DeleteFile {
	r.t.Helper()
	rdr, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
	require.NoError(r.t, err)
	defer rdr.Release()
	var content bytes.Buffer
	require.NoError(r.t, parquettest.Write(&content, rdr, parquettest.Options{FieldIDs: ids}))
	r.files.Put(name, content.Bytes())
	return &catalog.DeleteFile{Location: name, Bytes: int64(content.Len()), Rows: rows.NumRows()}
}

// columnOf makes a column of some values as text; "-" is null.
func columnOf(dt arrow.DataType, texts ...string) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	for _, text := range texts {
		if text == "-" {
			b.AppendNull()
		} else if err := b.AppendValueFromString(text); err != nil {
			panic(err)
		}
	}
	return b.NewArray()
}

func batchOf(names []string, columns ...arrow.Array) arrow.RecordBatch {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: names[i], Type: c.DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len()))
}

// positions writes position deletes of rows of files, which stand one after the other.
func (r *rig) positions(name string, of map[string][]int64) *catalog.DeleteFile {
	r.t.Helper()
	var paths, rows []string
	var locations []string
	for location := range of {
		locations = append(locations, location)
	}
	slices.Sort(locations)
	for _, location := range locations {
		for _, row := range of[location] {
			paths, rows = append(paths, location), append(rows, strconv.FormatInt(row, 10))
		}
	}
	d := r.put(name, batchOf([]string{"file_path", "pos"}, columnOf(arrow.BinaryTypes.String, paths...), columnOf(arrow.PrimitiveTypes.Int64, rows...)), 2147483546, 2147483545)
	d.Kind = catalog.PositionDeletes
	return d
}

// vector writes a deletion vector, with another library than the one that reads it.
func (r *rig) vector(name, of string, rows ...int64) *catalog.DeleteFile {
	r.t.Helper()
	set := dv.NewRoaringPositionBitmap()
	for _, row := range rows {
		set.Set(uint64(row))
	}
	blob, err := dv.SerializeDV(set)
	require.NoError(r.t, err)
	content := slices.Concat([]byte("PFA1"), blob, []byte("and more"))
	r.files.Put(name, content)
	return &catalog.DeleteFile{
		Kind: catalog.DeletionVector, Location: name, Bytes: int64(len(content)), Rows: int64(len(rows)), Data: of, Offset: 4, Length: int64(len(blob)),
	}
}

// equality writes equality deletes over columns of the table.
func (r *rig) equality(name string, sequence int64, columns []catalog.Field, values ...arrow.Array) *catalog.DeleteFile {
	r.t.Helper()
	names, ids := make([]string, len(columns)), make([]int, len(columns))
	for i, c := range columns {
		names[i], ids[i] = c.Name, c.ID
	}
	d := r.put(name, batchOf(names, values...), ids...)
	d.Kind, d.Sequence, d.Columns = catalog.EqualityDeletes, sequence, columns
	return d
}

func group(files ...*catalog.DeleteFile) *catalog.EqualityGroup {
	return &catalog.EqualityGroup{Columns: files[0].Columns, Files: files}
}

// allBut selects all rows of the first file but these, by number.
func allBut(rows ...int64) func(row int64) bool {
	return func(row int64) bool { return !slices.Contains(rows, row) }
}

// TestDeletedRows checks that rows named by delete files are not returned, for every batch
// size, part of the file, filter and projection.
//
// spec: delete-1
func TestDeletedRows(t *testing.T) {
	t.Parallel()
	gone := []int64{0, 4, 5, 6, 7, 8, 9, 13, 19}
	for name, deletes := range map[string]func(r *rig) catalog.Deletes{
		"position deletes": func(r *rig) catalog.Deletes {
			return catalog.Deletes{Positions: []*catalog.DeleteFile{r.positions("d", map[string][]int64{locationOf(0): gone, "file:///other": {1, 2, 3}})}}
		},
		"several, in part the same": func(r *rig) catalog.Deletes {
			return catalog.Deletes{Positions: []*catalog.DeleteFile{
				r.positions("d", map[string][]int64{locationOf(0): gone[:4]}), r.positions("e", map[string][]int64{"file:///other": {1}}),
				r.positions("f", map[string][]int64{locationOf(0): gone[2:]}),
			}}
		},
		"a vector": func(r *rig) catalog.Deletes { return catalog.Deletes{Vector: r.vector("d", locationOf(0), gone...)} },
		"equality deletes": func(r *rig) catalog.Deletes {
			var ids []string
			for _, row := range gone {
				ids = append(ids, strconv.FormatInt(row, 10))
			}
			return catalog.Deletes{Equality: []*catalog.EqualityGroup{group(r.equality("d", 9, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, ids...)))}}
		},
		"a vector and equality deletes": func(r *rig) catalog.Deletes {
			return catalog.Deletes{
				Vector:   r.vector("d", locationOf(0), gone[:5]...),
				Equality: []*catalog.EqualityGroup{group(r.equality("e", 9, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, "8", "9", "13", "19", "70")))},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.grow(20, 5, 1)
			r.list[0].Sequence = 8
			r.list[0].Deletes = deletes(r)
			r.grow(4, 4, 2)
			for _, batchRows := range []int{1, 3, 100} {
				s := r.scanner(scan.Options{BatchRows: batchRows})
				for _, columns := range [][]catalog.Field{r.columns("id", "key", "tags"), r.columns("flag"), nil} {
					source := r.source()
					got := r.read(s, source, columns)
					require.NoError(t, got.err)
					require.Equal(t, r.want(source, columns, allBut(gone...)), got.lines)

					source.Filter = r.filter("id > 6 AND id < 22 AND x IS NOT NULL")
					got = r.read(s, source, columns)
					require.NoError(t, got.err)
					require.Equal(t, r.want(source, columns, func(row int64) bool {
						return row > 6 && row < 22 && row%5 != 0 && allBut(gone...)(row)
					}), got.lines)

					source.Filter, source.Files[0].From, source.Files[0].To = nil, 3, 14
					got = r.read(s, source, columns)
					require.NoError(t, got.err)
					require.Equal(t, r.want(source, columns, allBut(gone...)), got.lines)
				}
			}
		})
	}
}

// Conditions are not computed for deleted rows, and those of a sample not for rows that a filter drops.
//
// spec: expr-12, expr-19
func TestDeletedRowsFailNoConditions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(20, 5, 1)
	r.list[0].Sequence = 8
	r.list[0].Deletes = catalog.Deletes{
		Vector:   r.vector("d", locationOf(0), 4),
		Equality: []*catalog.EqualityGroup{group(r.equality("e", 9, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, "7", "9")))},
	}
	columns := r.columns("id", "key")
	for _, batchRows := range []int{1, 3, 100} {
		s := r.scanner(scan.Options{BatchRows: batchRows})
		source := r.source()
		source.Filter = r.filter("100 % (id - 7) < 50 AND 100 / (id - 4) < 1000")
		got := r.read(s, source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, allBut(4, 7, 9)), got.lines)

		source.Filter = r.filter("id <> 5")
		source.Sample = &plan.Sample{To: 1, Rate: 0, Where: r.filter("100 / ((id - 4) * (id - 5) * (id - 7)) > 1000")}
		got = r.read(s, source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, allBut(4, 5, 7, 9)), got.lines)

		source.Filter, source.Sample = r.filter("100 / (id - 3) < 1000"), nil
		require.ErrorContains(t, r.read(s, source, columns).err, "100 / 0 is a division by zero")
	}
}

// TestEqualityRules checks sequence numbers, nulls, several columns, and several delete
// files of one group.
//
// spec: delete-3
func TestEqualityRules(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 { // rows 0 to 9, 10 to 19, 20 to 29
		r.grow(10, 10, 1)
		r.list[i].Sequence = int64(4 + i)
	}
	day, flag := r.columns("day"), r.columns("day", "x")
	byDay := group( // days are 0, 1 and 2
		r.equality("a", 5, day, columnOf(arrow.FixedWidthTypes.Date32, "1970-01-01", "1970-01-02")),
		r.equality("b", 6, day, columnOf(arrow.FixedWidthTypes.Date32, "1970-01-03")),
	)
	byBoth := group(r.equality("c", 7, flag, columnOf(arrow.FixedWidthTypes.Date32, "1970-01-02", "1970-01-03", "-"), columnOf(arrow.PrimitiveTypes.Float64, "-", "5.25", "-")))
	for i := range r.list {
		r.list[i].Deletes.Equality = []*catalog.EqualityGroup{byDay, byBoth}
	}
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.NoError(t, got.err)
	// All of day 0, whose file is older than a; of day 1 those without x, of day 2 the one
	// with 5.25: a and b are not younger than their files.
	require.Equal(t, r.want(r.source(), r.columns("id"), func(row int64) bool {
		return row >= 10 && row != 10 && row != 15 && row != 21
	}), got.lines)
}

// TestValuesThatAreDeletedTwice checks that, if an older and a younger delete file of a
// group have the same value, the younger one applies to the files between them.
//
// spec: delete-3
func TestValuesThatAreDeletedTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 10, 1)
	r.list[0].Sequence = 5
	id := r.columns("id")
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(
		r.equality("a", 5, id, columnOf(arrow.PrimitiveTypes.Int64, "2", "3")), r.equality("b", 7, id, columnOf(arrow.PrimitiveTypes.Int64, "4", "2")),
	)}
	got := r.read(r.scanner(scan.Options{}), r.source(), id)
	require.NoError(t, got.err)
	require.Equal(t, r.want(r.source(), id, allBut(2, 4)), got.lines)
}

// TestEqualityDeletesOfADroppedColumn checks a table that has dropped the column, and has a
// new column of the same name.
//
// spec: delete-4
func TestEqualityDeletesOfADroppedColumn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 10, 1)
	flag := r.columns("flag")
	r.table.Fields = slices.DeleteFunc(r.table.Fields, func(f catalog.Field) bool { return f.Name == "flag" })
	r.table.Fields = append(r.table.Fields, catalog.Field{ID: 20, Name: "flag", Type: arrow.PrimitiveTypes.Int64})
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality("d", 5, flag, columnOf(arrow.FixedWidthTypes.Boolean, "true")))}
	source := r.source()
	source.Filter = r.filter("flag IS NULL")
	got := r.read(r.scanner(scan.Options{}), source, r.columns("id"))
	require.NoError(t, got.err)
	require.Equal(t, r.want(source, r.columns("id"), func(row int64) bool { return row%3 != 0 }), got.lines)
}

// TestEqualityDeletesOfAPromotedColumn checks delete files and data files with integers of
// either width.
//
// spec: delete-4
func TestEqualityDeletesOfAPromotedColumn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 10, 1)
	d := r.put("d", batchOf([]string{"id"}, columnOf(arrow.PrimitiveTypes.Int32, "3", "7")), 1)
	d.Kind, d.Sequence, d.Columns = catalog.EqualityDeletes, 5, r.columns("id")
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(d)}
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Equal(t, r.want(r.source(), r.columns("id"), allBut(3, 7)), got.lines)
}

// TestDroppedColumnsOfFilesWithoutIDs checks that such files are refused: the pinned name
// mapping only covers the table's columns, so it does not show which column of a file was
// dropped.
//
// spec: delete-4
func TestDroppedColumnsOfFilesWithoutIDs(t *testing.T) {
	t.Parallel()
	r := migrated(t)
	long := arrow.PrimitiveTypes.Int64
	r.addFile(nil, `[{"id":1,"gone":7},{"id":2,"gone":8}]`, nullable("id", long), nullable("gone", long))
	dropped := catalog.Field{ID: 30, Name: "gone", Type: long}
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality("d", 5, []catalog.Field{dropped}, columnOf(long, "7")))}
	got := r.give("id")
	require.Equal(t, fault.Invalid, fault.KindOf(got.err), "%v %v", got.err, got.lines)
	require.ErrorContains(t, got.err, "compare column gone (dropped, field id 30)")
	require.Equal(t, locationOf(0), fault.As(got.err).File)
	require.NotEmpty(t, fault.As(got.err).Remedy)

	// A file with ids says it itself.
	r = migrated(t)
	r.addFile(nil, `[{"id":1,"gone":7},{"id":2,"gone":8}]`, withID(1, "id", long), withID(30, "gone", long))
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality("d", 5, []catalog.Field{dropped}, columnOf(long, "7")))}
	got = r.give("id")
	require.NoError(t, got.err)
	require.Equal(t, []string{"2"}, got.lines)
}
