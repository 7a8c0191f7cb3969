package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	_ "modernc.org/sqlite" // the driver of the catalog

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
)

// The size of the table.
const (
	days, buckets   = 64, 64
	files, commits  = 40_000, 40
	firstDay        = 20_000 // since 1970
	rowsFile        = "rows.parquet"
	bytesOf, rowsOf = 200 << 20, 1 << 20 // of a data file
	stagedRows      = 10_000
)

// write makes the catalog with the table, and the rows of one day.
func write(ctx context.Context, folder string) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "catalog.db"))
	if err != nil {
		return err
	}
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + folder})
	if err != nil {
		return err
	}
	if err := errors.Join(c.CreateNamespace(ctx, []string{"ml"}, nil), db.Close()); err != nil {
		return err
	}
	tables, err := icebergcat.Open(ctx, icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: folder, Warehouse: "file://" + folder, Store: store.Local{},
		Clock: time.Now, WriteNamespaces: []string{"ml"},
	})
	if err != nil {
		return err
	}
	defer tables.Close()
	if err := create(ctx, tables); err != nil {
		return err
	}
	return writeRows(filepath.Join(folder, rowsFile))
}

// create creates the table and commits its files.
func create(ctx context.Context, tables *icebergcat.Catalog) error {
	err := tables.Create(ctx, commit.NewTable{
		Table: table, Version: 2, Columns: []commit.NewColumn{
			{ID: 1, Name: "k", Type: "long"}, {ID: 2, Name: "day", Type: "date"}, {ID: 3, Name: "v", Type: "string"},
		},
		Partition: []commit.PartitionBy{{Column: 2, Name: "day", Transform: "identity"}, {Column: 1, Name: "k_bucket", Transform: fmt.Sprintf("bucket[%d]", buckets)}},
	})
	if err != nil {
		return err
	}
	state, err := tables.State(ctx, table, commit.Main)
	if err != nil {
		return err
	}
	for i := range commits {
		change := commit.Change{Table: table, UUID: state.Table.Pin.UUID, Token: commit.NewToken(time.Now(), "files")}
		for n := i * files / commits; n < (i+1)*files/commits; n++ {
			change.Add = append(change.Add, dataFile(state, n))
		}
		if _, err := tables.Commit(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// dataFile returns the nth file, of which only the description exists.
func dataFile(state *commit.TableState, n int) commit.DataFile {
	partition := n % (days * buckets)
	day := int64(firstDay + partition/buckets)
	every := func(v int64) map[int]int64 { return map[int]int64{1: v, 2: v, 3: v} }
	bounds := func(k uint64, v string) map[int][]byte {
		return map[int][]byte{1: binary.LittleEndian.AppendUint64(nil, k), 2: binary.LittleEndian.AppendUint32(nil, uint32(day)), 3: []byte(v)}
	}
	return commit.DataFile{
		Location:  fmt.Sprintf("%s/data/day=%d/k_bucket=%d/penstock-%016x-%05d.parquet", state.Table.Location, day, partition%buckets, n, n),
		Spec:      state.Spec,
		Partition: []any{day, int64(partition % buckets)}, Rows: rowsOf, Bytes: bytesOf, Splits: []int64{4},
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: every(bytesOf / 3), Values: every(rowsOf), Nulls: every(0), Lower: bounds(uint64(n), "a"), Upper: bounds(1<<40, "z"),
		},
	}
}

// writeRows writes rows of one day.
func writeRows(path string) error {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "k", Type: arrow.PrimitiveTypes.Int64}, {Name: "day", Type: arrow.FixedWidthTypes.Date32}, {Name: "v", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range stagedRows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Date32Builder).Append(firstDay + days/2)
		b.Field(2).(*array.StringBuilder).Append("value " + strconv.Itoa(i%100))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	return errors.Join(w.Write(b.NewRecordBatch()), w.Close())
}

// serve starts Iceberg's REST server over the catalog, and returns its address and what ends it.
func serve(ctx context.Context, jars, folder string) (string, func(), error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	c := exec.CommandContext(ctx, "java", "-Xmx1g", "-cp", filepath.Join(jars, "*"), "org.apache.iceberg.rest.RESTCatalogServer")
	c.Env = append(os.Environ(),
		"CATALOG_CATALOG__IMPL=org.apache.iceberg.jdbc.JdbcCatalog", "CATALOG_URI=jdbc:sqlite:"+filepath.Join(folder, "catalog.db"),
		"CATALOG_WAREHOUSE=file://"+folder, "CATALOG_JDBC_SCHEMA__VERSION=V1", "CATALOG_REST_PORT="+port, "CATALOG_CATALOG_NAME=default", "CATALOG_CLIENTS=1")
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop := func() { _ = c.Process.Kill(); _ = c.Wait() }
	uri := "http://127.0.0.1:" + port
	for range 600 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri+"/v1/config", nil)
		if err != nil {
			return "", nil, err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			return uri, stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return "", nil, errors.New("the REST server does not answer")
}
