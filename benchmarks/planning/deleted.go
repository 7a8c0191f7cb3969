package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
)

// The size of the tables with deletes: data files in buckets, written by a few commits, and then delete
// files.
const (
	deletedFiles   = 50_000
	deletedBuckets = 4_000
	deleteFiles    = 10_000
	rowsOfFile     = 1_000
)

// writeDeleted creates a table with deletes: vectors in version 3; otherwise position deletes of
// one file each, position deletes of a bucket, and equality deletes, a third of each.
func writeDeleted(ctx context.Context, tables *icesql.Catalog, version string) error {
	fields := []iceberg.NestedField{{ID: 1, Name: "request_id", Type: iceberg.PrimitiveTypes.Int64, Required: true}}
	for c := range columns {
		fields = append(fields, iceberg.NestedField{ID: c + 2, Name: fmt.Sprintf("c%d", c+1), Type: iceberg.PrimitiveTypes.Int64})
	}
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{1}, FieldID: 1000, Name: "request_id_bucket", Transform: iceberg.BucketTransform{NumBuckets: deletedBuckets},
	})
	name := "deleted" + version
	table, err := tables.CreateTable(ctx, icetable.Identifier{"bench", name}, iceberg.NewSchema(0, fields...),
		icecatalog.WithPartitionSpec(&spec), icecatalog.WithProperties(iceberg.Properties{icetable.PropertyFormatVersion: version}))
	if err != nil {
		return err
	}
	commit := func(change func(*icetable.Transaction) error) error {
		tx := table.NewTransaction()
		if err := change(tx); err != nil {
			return err
		}
		table, err = tx.Commit(ctx)
		return err
	}
	var data []iceberg.DataFile
	for part := range commits {
		from := len(data)
		for i := part; i < deletedFiles; i += commits {
			file, err := deletedFile(table.Spec(), name, i)
			if err != nil {
				return err
			}
			data = append(data, file)
		}
		if err := commit(func(tx *icetable.Transaction) error { return tx.NewRowDelta(nil).AddRows(data[from:]...).Commit(ctx) }); err != nil {
			return err
		}
	}
	for part := range commits {
		var added []iceberg.DataFile
		for i := part; i < deleteFiles; i += commits {
			file, err := deleteFile(table.Spec(), version, i, data[i*4])
			if err != nil {
				return err
			}
			added = append(added, file)
		}
		if err := commit(func(tx *icetable.Transaction) error { return tx.NewRowDelta(nil).AddDeletes(added...).Commit(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// deletedFile returns the i-th data file.
func deletedFile(spec iceberg.PartitionSpec, table string, i int) (iceberg.DataFile, error) {
	b := i % deletedBuckets
	location := fmt.Sprintf("s3://warehouse/bench/%s/data/request_id_bucket=%d/00000-%08d-%032x.parquet", table, b, i, i)
	builder, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, location, iceberg.ParquetFile, map[int]any{1000: int32(b)}, nil, nil, rowsOfFile, 1<<20)
	if err != nil {
		return nil, err
	}
	sizes, values, nulls := map[int]int64{}, map[int]int64{}, map[int]int64{}
	lower, upper := map[int][]byte{}, map[int][]byte{}
	for id := 1; id <= columns+1; id++ {
		sizes[id], values[id], nulls[id] = 1<<15, rowsOfFile, 0
		lower[id] = binary.LittleEndian.AppendUint64(nil, uint64(i))
		upper[id] = binary.LittleEndian.AppendUint64(nil, 1<<62+uint64(i))
	}
	return builder.ColumnSizes(sizes).ValueCounts(values).NullValueCounts(nulls).LowerBoundValues(lower).UpperBoundValues(upper).Build(), nil
}

// deleteFile returns the i-th delete file, for a data file or for its bucket.
func deleteFile(spec iceberg.PartitionSpec, version string, i int, of iceberg.DataFile) (iceberg.DataFile, error) {
	const path, bytes = 2147483546, 10_000
	kind, format := iceberg.EntryContentPosDeletes, iceberg.ParquetFile
	if version == "3" {
		format = iceberg.PuffinFile
	} else if i%3 == 2 {
		kind = iceberg.EntryContentEqDeletes
	}
	location := fmt.Sprintf("%s-%d-deletes", of.FilePath(), i)
	b, err := iceberg.NewDataFileBuilder(spec, kind, location, format, of.Partition(), nil, nil, rowsOfFile/10, bytes)
	if err != nil {
		return nil, err
	}
	name := []byte(of.FilePath())
	switch {
	case version == "3":
		b.ReferencedDataFile(of.FilePath()).ContentOffset(4).ContentSizeInBytes(bytes / 2)
	case i%3 == 0:
		b.LowerBoundValues(map[int][]byte{path: name}).UpperBoundValues(map[int][]byte{path: name})
	case i%3 == 2:
		b.EqualityFieldIDs([]int{1, 2})
	}
	return b.Build(), nil
}
