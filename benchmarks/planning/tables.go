package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
)

const (
	database = "catalog.db"
	finished = "finished" // marker file, written when all tables are complete

	files   = 4096 // of each table
	commits = 8    // each writes one manifest
	columns = 20   // besides the key, each with bounds
)

// planned is a plan to make.
type planned struct {
	name, question  string
	splits, deletes int
}

// allPlanned returns the joins, and the tables with deletes.
func allPlanned() []planned {
	var all []planned
	for _, m := range mixes() {
		all = append(all, planned{name: m.String(), question: m.question(), splits: files})
	}
	for version, what := range map[string]string{"2": "position, equality", "3": "vectors"} {
		all = append(all, planned{
			name: "50,000, 10,000 " + what, splits: deletedBuckets, deletes: deleteFiles,
			question: fmt.Sprintf(`{"lanes": 64, "shard": {"index": 0, "of": 1}, "batch_rows": 8192, "dataset": {"training": {"table": "bench.deleted%s"}}}`, version),
		})
	}
	return all
}

// mix has the bucket counts of the staging tables of one join.
type mix [4]int

// mixes are the joins to plan: with equal counts, which result in 4,096 file groups of one file, and
// with counts that have few common factors.
func mixes() []mix { return []mix{{files, files, files, files}, {files, 1024, 3072, 4095}} }

func (m mix) String() string { return strings.Trim(fmt.Sprint([4]int(m)), "[]") }

// question joins the training table with a staging table of each count.
func (m mix) question() string {
	var entries []string
	for i, n := range m {
		entries = append(entries, fmt.Sprintf(`{"table": "bench.f%d_%d", "name": "f%d", "columns": ["c1", "c2"], "prefix": "f%d_"}`, i, n, i, i))
	}
	return fmt.Sprintf(`{"lanes": 64, "shard": {"index": 0, "of": 1}, "batch_rows": 8192, "dataset": {
		"training": {"table": "bench.training"}, "key": ["request_id"], "staging": [%s]}}`, strings.Join(entries, ", "))
}

// write creates all tables in a folder.
func write(ctx context.Context, home string) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o750); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(home, database)+"?_pragma=synchronous(OFF)")
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // each commit was written
	tables, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + home})
	if err != nil {
		return err
	}
	if err := tables.CreateNamespace(ctx, icetable.Identifier{"bench"}, nil); err != nil {
		return err
	}
	buckets := map[string]int{"training": files}
	for _, m := range mixes() {
		for i, n := range m {
			buckets[fmt.Sprintf("f%d_%d", i, n)] = n
		}
	}
	for name, n := range buckets {
		if err := writeTable(ctx, tables, name, n); err != nil {
			return fmt.Errorf("bench.%s: %w", name, err)
		}
	}
	for _, version := range []string{"2", "3"} {
		if err := writeDeleted(ctx, tables, version); err != nil {
			return fmt.Errorf("the table with deletes of version %s: %w", version, err)
		}
	}
	return os.WriteFile(filepath.Join(home, finished), nil, 0o600)
}

// writeTable commits the manifests of a table.
func writeTable(ctx context.Context, tables *icesql.Catalog, name string, buckets int) error {
	fields := []iceberg.NestedField{{ID: 1, Name: "request_id", Type: iceberg.PrimitiveTypes.Int64, Required: true}}
	for c := range columns {
		fields = append(fields, iceberg.NestedField{ID: c + 2, Name: fmt.Sprintf("c%d", c+1), Type: iceberg.PrimitiveTypes.Int64})
	}
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{1}, FieldID: 1000, Name: "request_id_bucket", Transform: iceberg.BucketTransform{NumBuckets: buckets},
	})
	table, err := tables.CreateTable(ctx, icetable.Identifier{"bench", name}, iceberg.NewSchema(0, fields...),
		icecatalog.WithPartitionSpec(&spec))
	if err != nil {
		return err
	}
	for commit := range commits {
		var added []iceberg.DataFile
		for i := commit; i < files; i += commits {
			file, err := dataFile(table.Spec(), name, i, buckets)
			if err != nil {
				return err
			}
			added = append(added, file)
		}
		change := table.NewTransaction()
		if err := change.ReplaceDataFilesWithDataFiles(ctx, nil, added, nil, icetable.WithoutAutoNameMapping()); err != nil {
			return err
		}
		if table, err = change.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dataFile returns the i-th file of a table, with bounds as a writer records them.
func dataFile(spec iceberg.PartitionSpec, table string, i, buckets int) (iceberg.DataFile, error) {
	const rows = 50_000
	location := fmt.Sprintf("s3://warehouse/bench/%s/data/request_id_bucket=%d/00000-%08d-%032x.parquet", table, i%buckets, i, i)
	partition := map[int]any{1000: int32(i % buckets)}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, location, iceberg.ParquetFile, partition, nil, nil, rows, 32<<20)
	if err != nil {
		return nil, err
	}
	sizes, values, nulls := map[int]int64{}, map[int]int64{}, map[int]int64{}
	lower, upper := map[int][]byte{}, map[int][]byte{}
	for id := 1; id <= columns+1; id++ {
		sizes[id], values[id], nulls[id] = 1<<20, rows, 0
		lower[id] = binary.LittleEndian.AppendUint64(nil, uint64(i))
		upper[id] = binary.LittleEndian.AppendUint64(nil, 1<<62+uint64(i))
	}
	return b.ColumnSizes(sizes).ValueCounts(values).NullValueCounts(nulls).LowerBoundValues(lower).UpperBoundValues(upper).Build(), nil
}
