package listing_test

import (
	"encoding"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

func refused(t *testing.T, err error, file, text string) {
	t.Helper()
	require.EqualError(t, err, text)
	e := fault.As(err)
	require.Equal(t, fault.Invalid.String(), e.Kind.String())
	require.Equal(t, icebergtest.Events, e.Table)
	require.Equal(t, file, e.File)
	require.NotEmpty(t, e.Remedy)
}

// TestDeleteFilesAreListed checks that delete files are listed with the data files whose
// rows they delete, as long as they are live.
//
// spec: delete-2, delete-3
func TestDeleteFilesAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		content iceberg.ManifestEntryContent
		format  iceberg.FileFormat
	}{
		"position deletes":  {"2", iceberg.EntryContentPosDeletes, iceberg.ParquetFile},
		"equality deletes":  {"2", iceberg.EntryContentEqDeletes, iceberg.ParquetFile},
		"a deletion vector": {"3", iceberg.EntryContentPosDeletes, iceberg.PuffinFile},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion(c.version)).Spec()
			data := func(name string) iceberg.DataFile {
				return icebergtest.DataFile(t, spec, icebergtest.Location(name), nil, func(b *iceberg.DataFileBuilder) { b.FirstRowID(0) })
			}
			w.Add(t, icebergtest.Events, "", data("a"))
			reader := w.Open(t)
			before, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)

			deletes := icebergtest.DeleteFile(t, spec, c.content, c.format)
			tx := w.Load(t, icebergtest.Events).NewTransaction()
			require.NoError(t, tx.NewRowDelta(nil).AddDeletes(deletes).Commit(t.Context()))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)

			files, err := icebergtest.List(t, reader, 1)
			require.NoError(t, err)
			all := files[0].Deletes.All(files[0].Sequence)
			require.Len(t, all, 1)
			require.Equal(t, name, all[0].Kind.String())
			require.Equal(t, deletes.FilePath(), all[0].Location)
			require.EqualValues(t, 100, all[0].Bytes)
			require.EqualValues(t, 1, all[0].Rows)
			require.EqualValues(t, 2, all[0].Sequence)
			switch all[0].Kind {
			case catalog.DeletionVector:
				require.Equal(t, icebergtest.Location("a"), all[0].Data)
				require.Equal(t, []int64{4, 40}, []int64{all[0].Offset, all[0].Length})
			case catalog.EqualityDeletes:
				require.Equal(t, "id", all[0].Columns[0].Name)
			case catalog.PositionDeletes:
				require.Empty(t, all[0].Data)
			}

			files, err = reader.Files(t.Context(), before, []int{1}, nil)
			require.NoError(t, err, "a pin from before the delete is read")
			require.Len(t, files, 1)
			require.True(t, files[0].Deletes.None())

			// Delete files that were removed leave a manifest of nothing live.
			tx = w.Load(t, icebergtest.Events).NewTransaction()
			require.NoError(t, tx.ReplaceFiles(t.Context(), []iceberg.DataFile{data("a")}, []iceberg.DataFile{data("b")},
				[]iceberg.DataFile{deletes}, nil, icetable.WithoutAutoNameMapping()))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
			files, err = icebergtest.List(t, reader, 1)
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.Equal(t, icebergtest.Location("b"), files[0].Location)
			require.True(t, files[0].Deletes.None())
		})
	}
}

// TestUnsupportedDeleteFilesAreRefused checks that they are refused by name and never
// ignored.
//
// spec: delete-8
func TestUnsupportedDeleteFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		content iceberg.ManifestEntryContent
		format  iceberg.FileFormat
		with    func(b *iceberg.DataFileBuilder)
		text    string
	}{
		"Avro": {
			iceberg.EntryContentPosDeletes, iceberg.AvroFile, func(*iceberg.DataFileBuilder) {},
			"delete file /warehouse/deletes.parquet of table ml.events is of format AVRO: only Parquet and Puffin are supported by this version; rewrite the table's data files, so that the delete file is not needed",
		},
		"encrypted": {
			iceberg.EntryContentPosDeletes, iceberg.ParquetFile, func(b *iceberg.DataFileBuilder) { b.KeyMetadata([]byte{1}) },
			"file /warehouse/deletes.parquet of table ml.events is encrypted, which is not supported by this version; read a copy of the table that is not encrypted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("2")).Spec()
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(*iceberg.DataFileBuilder) {}))
			b, err := iceberg.NewDataFileBuilder(spec, c.content, icebergtest.Location("deletes"), c.format, nil, nil, nil, 1, 100)
			require.NoError(t, err)
			c.with(b)
			tx := w.Load(t, icebergtest.Events).NewTransaction()
			require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(t.Context()))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
			_, err = icebergtest.List(t, w.Open(t), 1)
			refused(t, err, icebergtest.Location("deletes"), c.text)
		})
	}
}

// TestVectorsWithoutALocationAreCorrupt checks manifests without the location of a vector,
// or without its data file.
//
// spec: delete-5
func TestVectorsWithoutALocationAreCorrupt(t *testing.T) {
	for name, with := range map[string]func(b *iceberg.DataFileBuilder){
		"of no file": func(b *iceberg.DataFileBuilder) { b.ContentOffset(4).ContentSizeInBytes(40) },
		"without offset": func(b *iceberg.DataFileBuilder) {
			b.ReferencedDataFile(icebergtest.Location("a")).ContentSizeInBytes(40)
		},
		"without length": func(b *iceberg.DataFileBuilder) { b.ReferencedDataFile(icebergtest.Location("a")).ContentOffset(4) },
		"beyond its file": func(b *iceberg.DataFileBuilder) {
			b.ReferencedDataFile(icebergtest.Location("a")).ContentOffset(61).ContentSizeInBytes(40)
		},
		"before its file": func(b *iceberg.DataFileBuilder) {
			b.ReferencedDataFile(icebergtest.Location("a")).ContentOffset(-1).ContentSizeInBytes(40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := icebergtest.NewHandmade(t, "3", func(s *icetable.Snapshot) { s.FirstRowID, s.AddedRows = new(int64), new(int64) })
			b, err := iceberg.NewDataFileBuilder(h.Table.Spec(), iceberg.EntryContentPosDeletes, icebergtest.Location("deletes"), iceberg.PuffinFile, nil, nil, nil, 1, 100)
			require.NoError(t, err)
			with(b)
			h.Commit(t, h.Deletes(t, "deletes.avro", b.Build()))
			_, err = icebergtest.List(t, h.Open(t), 1)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "does not say where in /warehouse/deletes.parquet a deletion vector lies")
		})
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		file       func(iceberg.PartitionSpec) iceberg.DataFile
	}{
		{
			"format",
			"file /warehouse/a.parquet of table ml.events is of format ORC: only Parquet is supported by this version; rewrite the table's files as Parquet",
			func(spec iceberg.PartitionSpec) iceberg.DataFile {
				b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, icebergtest.Location("a"), iceberg.OrcFile, nil, nil, nil, 1, 1)
				require.NoError(t, err)
				return b.Build()
			},
		},
		{
			"encryption",
			"file /warehouse/a.parquet of table ml.events is encrypted, which is not supported by this version; read a copy of the table that is not encrypted",
			func(spec iceberg.PartitionSpec) iceberg.DataFile {
				return icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) { b.KeyMetadata([]byte{1}) })
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
			w.Add(t, icebergtest.Events, "", c.file(spec))
			_, err := icebergtest.List(t, w.Open(t), 1)
			refused(t, err, icebergtest.Location("a"), c.text)
		})
	}
}

func TestPropertiesAreRefused(t *testing.T) {
	for property, text := range map[string]string{
		"encryption.key-id": "table ml.events: it is encrypted (property encryption.key-id): not supported by this version",
	} {
		t.Run(property, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
			w.Update(t, icebergtest.Events, icetable.NewSetPropertiesUpdate(iceberg.Properties{property: "[]"}))
			_, err := icebergtest.List(t, w.Open(t), 1)
			require.ErrorContains(t, err, text)
			refused(t, err, w.Load(t, icebergtest.Events).MetadataLocation(), err.Error())
		})
	}
}

// TestChangedColumnsAreListed changes one column after a file was written: files are read by
// field id, whatever the column's old name and type.
func TestChangedColumnsAreListed(t *testing.T) {
	integer, long, text := iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.String
	required := func(f iceberg.NestedField) iceberg.NestedField {
		f.Required = true
		return f
	}
	for name, c := range map[string]struct{ before, after iceberg.NestedField }{
		"no longer required":      {required(icebergtest.Field(2, "a", integer)), icebergtest.Field(2, "a", integer)},
		"renamed":                 {icebergtest.Field(2, "a", integer), icebergtest.Field(2, "b", integer)},
		"promoted":                {icebergtest.Field(2, "a", integer), icebergtest.Field(2, "a", long)},
		"wider decimal":           {icebergtest.Field(2, "a", iceberg.DecimalTypeOf(9, 2)), icebergtest.Field(2, "a", iceberg.DecimalTypeOf(18, 2))},
		"now required":            {icebergtest.Field(2, "a", integer), required(icebergtest.Field(2, "a", integer))},
		"promoted element":        {icebergtest.Field(2, "a", icebergtest.ListOf(3, integer)), icebergtest.Field(2, "a", icebergtest.ListOf(3, long))},
		"field added to struct":   {icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(3, "x", text))), icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(3, "x", text), icebergtest.Field(4, "y", text)))},
		"field of another id":     {icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(3, "x", text))), icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(4, "x", text)))},
		"field renamed in struct": {icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(3, "x", text))), icebergtest.Field(2, "a", icebergtest.StructOf(icebergtest.Field(3, "y", text)))},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			id := icebergtest.IDSchema().Field(0)
			spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, id, c.before)).Spec()
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
			w.Alter(t, icebergtest.Events, id, c.after)
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, nil))
			files, err := icebergtest.List(t, w.Open(t), 1, 2)
			require.NoError(t, err)
			require.Len(t, files, 2)
		})
	}
}

// TestBoundsOfPromotedColumns checks bounds that have the type that they were written with.
func TestBoundsOfPromotedColumns(t *testing.T) {
	id := icebergtest.IDSchema().Field(0)
	for name, c := range map[string]struct {
		before, after iceberg.Type
		lower, upper  iceberg.Literal
		want          expr.Range
	}{
		"int to long": {
			iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64, iceberg.NewLiteral(int32(-7)), iceberg.NewLiteral(int32(70)),
			expr.Range{Lower: expr.Int(-7), Upper: expr.Int(70), HasLower: true, HasUpper: true},
		},
		"float to double": {
			iceberg.PrimitiveTypes.Float32, iceberg.PrimitiveTypes.Float64, iceberg.NewLiteral(float32(0.1)), iceberg.NewLiteral(float32(2)),
			expr.Range{Lower: expr.Float(float64(float32(0.1))), Upper: expr.Float(2), HasLower: true, HasUpper: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, id, icebergtest.Field(2, "a", c.before))).Spec()
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) {
				lower, err := c.lower.(encoding.BinaryMarshaler).MarshalBinary()
				require.NoError(t, err)
				upper, err := c.upper.(encoding.BinaryMarshaler).MarshalBinary()
				require.NoError(t, err)
				b.LowerBoundValues(map[int][]byte{2: lower}).UpperBoundValues(map[int][]byte{2: upper})
			}))
			w.Alter(t, icebergtest.Events, id, icebergtest.Field(2, "a", c.after))
			reader := w.Open(t)
			table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			files, err := reader.Files(t.Context(), table, []int{1, 2}, []int{2})
			require.NoError(t, err)
			c.want.Rows, c.want.Nulls = files[0].Rows, expr.Unknown
			require.Equal(t, c.want, files[0].Ranges[2])
		})
	}
}

// The schema of a file is known even if its snapshot has expired: from the manifest that
// added it, or from all remaining schemas.
//
// spec: resolve-73
func TestRequiredColumnsAreRefusedAfterExpiry(t *testing.T) {
	id := icebergtest.IDSchema().Field(0)
	with := icebergtest.Field(2, "a", iceberg.PrimitiveTypes.Int32)
	with.Required = true
	row := func(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }
	for name, rewrite := range map[string]bool{"its manifest remains": false, "its manifest was rewritten": true} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, id), icebergtest.FormatVersion("3")).Spec()
			other := icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, row)
			first := w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, row), other)
			w.Alter(t, icebergtest.Events, id, with)
			if rewrite {
				w.Replace(t, icebergtest.Events, "", []iceberg.DataFile{other}, []iceberg.DataFile{icebergtest.DataFile(t, spec, icebergtest.Location("c"), nil, row)})
			} else {
				w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("c"), nil, row))
			}
			w.Expire(t, icebergtest.Events, first)
			reader := w.Open(t)
			_, err := icebergtest.List(t, reader, 1, 2)
			require.ErrorContains(t, err, `file /warehouse/a.parquet of table ml.events was written before column "a"`)
			_, err = icebergtest.List(t, reader, 1)
			require.NoError(t, err)

			if !rewrite {
				w.Update(t, icebergtest.Events, icetable.NewRemoveSchemasUpdate([]int{0}))
				_, err = icebergtest.List(t, reader, 1, 2)
				require.ErrorContains(t, err, `file /warehouse/a.parquet of table ml.events was written before column "a"`)
			}
		})
	}
}

// spec: resolve-73
func TestRequiredColumnsAreRefused(t *testing.T) {
	id := icebergtest.IDSchema().Field(0)
	with := icebergtest.Field(2, "a", iceberg.PrimitiveTypes.Int32)
	with.InitialDefault, with.WriteDefault, with.Required = int32(7), int32(7), true
	without := icebergtest.Field(4, "c", iceberg.PrimitiveTypes.Int32)
	without.Required = true
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, iceberg.NewSchema(0, id), icebergtest.FormatVersion("3")).Spec()
	row := func(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, row))
	w.Alter(t, icebergtest.Events, id, with, icebergtest.Field(3, "b", iceberg.PrimitiveTypes.Int32), without)
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("b"), nil, row))
	reader := w.Open(t)
	_, err := icebergtest.List(t, reader, 1, 4)
	require.EqualError(t, err, `file /warehouse/a.parquet of table ml.events was written before column "c", which the table requires and `+
		"has no initial default for; rewrite the files that are older than the column, or leave it out")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.Equal(t, icebergtest.Location("a"), fault.As(err).File)
	files, err := icebergtest.List(t, reader, 1, 2, 3)
	require.NoError(t, err, "a column with a default has that in old files, and one without is null")
	require.Len(t, files, 2)
}

// TestFieldsHaveTheIDsOfNestedFields checks the ids of all nested fields, which scans
// compare with files.
func TestFieldsHaveTheIDsOfNestedFields(t *testing.T) {
	long := iceberg.PrimitiveTypes.Int64
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3"))
	w.Alter(t, icebergtest.Events, icebergtest.IDSchema().Field(0), icebergtest.Field(2, "a", long), icebergtest.Field(3, "b", long),
		icebergtest.Field(4, "s", icebergtest.StructOf(icebergtest.Field(5, "x", long), icebergtest.Field(6, "y", icebergtest.StructOf(icebergtest.Field(7, "z", long))))),
		icebergtest.Field(8, "l", &iceberg.ListType{ElementID: 9, Element: long}))
	table, err := w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Nil(t, table.Defaults)
	id := func(f arrow.Field) string {
		text, _ := f.Metadata.GetValue(catalog.FieldIDKey)
		return text
	}
	s, _ := table.Field("s")
	stored := s.Stored.(*arrow.StructType)
	require.Equal(t, []string{"5", "6", "7"}, []string{id(stored.Field(0)), id(stored.Field(1)), id(stored.Field(1).Type.(*arrow.StructType).Field(0))})
	l, _ := table.Field("l")
	require.Equal(t, "9", id(l.Stored.(*arrow.ListType).ElemField()))
	a, _ := table.Field("a")
	require.Nil(t, a.Stored)
	require.False(t, s.Type.(*arrow.StructType).Field(0).HasMetadata(), "what users see has none")
}

// TestDeepTypesAreRefusedIfRequested: Arrow's messages have a limited depth.
//
// spec: catalog-12
func TestDeepTypesAreRefusedIfRequested(t *testing.T) {
	nest := func(levels int) iceberg.Type {
		var typ iceberg.Type = iceberg.PrimitiveTypes.Int64
		for i := range levels - 1 {
			if i%2 == 0 {
				typ = icebergtest.StructOf(icebergtest.Field(1000*levels+i, "x", typ))
			} else {
				typ = icebergtest.ListOf(1000*levels+i, typ)
			}
		}
		return typ
	}
	w := icebergtest.NewWriter(t)
	schema := iceberg.NewSchema(0, icebergtest.IDSchema().Field(0), icebergtest.Field(2, "deep", nest(60)), icebergtest.Field(3, "deeper", nest(61)), icebergtest.Field(4, "deepest", nest(90)))
	spec := w.Create(t, icebergtest.Events, schema).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	reader := w.Open(t)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	deep, _ := table.Field("deep")
	_, err = icebergtest.List(t, reader, deep.ID)
	require.NoError(t, err)
	deeper, _ := table.Field("deeper")
	_, err = icebergtest.List(t, reader, deeper.ID)
	refused(t, err, "", `column "deeper" of table ml.events has more than 60 levels of nested types, which is not supported by this version; leave column "deeper" out`)
	for name, served := range map[string]bool{"deep": true, "deeper": false, "deepest": false} {
		f, ok := table.Field(name)
		require.True(t, ok)
		require.Equal(t, served, f.Type != arrow.Null, name)
	}
}

func TestUnsupportedTypesAreRefusedIfRequested(t *testing.T) {
	w := icebergtest.NewWriter(t)
	schema := iceberg.NewSchema(0, icebergtest.IDSchema().Field(0), icebergtest.Field(2, "v", iceberg.VariantType{}),
		icebergtest.Field(3, "s", icebergtest.StructOf(icebergtest.Field(4, "v", iceberg.VariantType{}))))
	spec := w.Create(t, icebergtest.Events, schema, icebergtest.FormatVersion("3")).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }))
	reader := w.Open(t)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Len(t, files, 1)
	_, err = icebergtest.List(t, reader, 1, 2)
	refused(t, err, "", `column "v" of table ml.events is of type variant, which is not supported by this version; leave column "v" out`)
	_, err = icebergtest.List(t, reader, 3)
	require.ErrorContains(t, err, `column "s" of table ml.events is of type struct<4: v: optional variant>`)
}

// TestDroppedColumnsWithDefaults checks files from before such a column: they have its
// initial default, which is only known for the table's current columns.
//
// spec: delete-8
func TestDroppedColumnsWithDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		schemas string
		column  int
		refused string
	}{
		"dropped":        {`[{"type":"struct","schema-id":0,"fields":[ID,A]},{"type":"struct","schema-id":1,"fields":[ID]}]`, 2, `"a"`},
		"in a struct":    {`[{"type":"struct","schema-id":0,"fields":[ID,S]},{"type":"struct","schema-id":1,"fields":[ID]}]`, 4, `"s.b"`},
		"not dropped":    {`[{"type":"struct","schema-id":0,"fields":[ID]},{"type":"struct","schema-id":1,"fields":[ID,A]}]`, 2, ""},
		"without one":    {`[{"type":"struct","schema-id":0,"fields":[ID,N]},{"type":"struct","schema-id":1,"fields":[ID]}]`, 5, ""},
		"default beside": {`[{"type":"struct","schema-id":0,"fields":[ID,A,N]},{"type":"struct","schema-id":1,"fields":[ID]}]`, 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion("3")).Spec()
			fields := strings.NewReplacer(
				"ID", `{"id":1,"name":"id","type":"int","required":false}`,
				"A", `{"id":2,"name":"a","type":"int","required":false,"initial-default":5}`,
				"N", `{"id":5,"name":"n","type":"int","required":false}`,
				"S", `{"id":3,"name":"s","type":{"type":"struct","fields":[{"id":4,"name":"b","type":"int","required":false,"initial-default":6}]},"required":false}`,
			)
			w.WithSchemas(t, fields.Replace(`[{"type":"struct","schema-id":0,"fields":[ID,A,N,S]}]`), 0)
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, func(b *iceberg.DataFileBuilder) { b.FirstRowID(0) }))
			b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentEqDeletes, icebergtest.Location("deletes"), iceberg.ParquetFile, nil, nil, nil, 1, 100)
			require.NoError(t, err)
			tx := w.Load(t, icebergtest.Events).NewTransaction()
			require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.EqualityFieldIDs([]int{c.column}).Build()).Commit(t.Context()))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
			w.WithSchemas(t, fields.Replace(c.schemas), 1)

			_, err = icebergtest.List(t, w.Open(t), 1)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			refused(t, err, icebergtest.Location("deletes"), "equality deletes "+icebergtest.Location("deletes")+" of table "+icebergtest.Events+" compare column "+c.refused+
				", which was dropped and has an initial default: not supported by this version; rewrite the table's data files, so that the delete file is not needed")
		})
	}
}
