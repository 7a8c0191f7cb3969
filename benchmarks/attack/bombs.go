package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
)

// bomb is a way to encode many values in few bytes.
type bomb int

const (
	// wholePages: 16 columns, each with one page of 64 MiB that zstd compresses well.
	wholePages bomb = iota
	// sharedValue: one column, all of whose rows have the dictionary's only value.
	sharedValue
)

// bombRows is the number of rows of a bomb.
const bombRows = 1024

func (b bomb) String() string {
	if b == sharedValue {
		return "1 GiB of one value"
	}
	return "16 pages of 64 MiB"
}

// columns returns the number of columns, and the bytes of a value.
func (b bomb) columns() (columns, size int) {
	if b == sharedValue {
		return 1, int(gibi / bombRows)
	}
	return 16, int(64 * mebi / bombRows)
}

// lay creates a dataset "bomb" whose training or staging table has the bomb as its only file, and
// returns the file's size in bytes. The other table has the same keys, 0 to 1023.
func (b bomb) lay(ctx context.Context, home string, staging bool) (size int64, err error) {
	w, err := newWarehouse(ctx, home)
	if err != nil {
		return 0, err
	}
	defer w.close() //nolint:errcheck // each commit was written
	n, _ := b.columns()
	harmful := shape{name: "harmful", columns: several("b", n, texts, 0)}
	harmless := shape{name: "harmless", columns: several("n", 1, longs, 0)}
	for _, s := range []shape{harmful, harmless} {
		table, err := w.create(ctx, s)
		if err != nil {
			return 0, err
		}
		content, err := b.file(s, s.name == harmful.name)
		if err != nil {
			return 0, err
		}
		path := w.path(s, 0)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return 0, err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return 0, err
		}
		entry, err := s.entry(table.Spec(), path, 0, bombRows)
		if err != nil {
			return 0, err
		}
		if err := w.commit(ctx, table, []iceberg.DataFile{entry}); err != nil {
			return 0, err
		}
		if s.name == harmful.name {
			size = int64(len(content))
		}
	}
	pair := [3]string{"bomb", harmful.name, harmless.name}
	if staging {
		pair = [3]string{"bomb", harmless.name, harmful.name}
	}
	return size, w.configure(pair)
}

// schema returns the schema of a file with a table's columns: strings in the bomb, or else numbers.
func (s shape) schema(harmful bool) (*schema.GroupNode, error) {
	fields := schema.FieldList{schema.NewInt64Node(keyName, parquet.Repetitions.Required, 1)}
	for i, c := range s.columns {
		id := int32(i + 2)
		if !harmful {
			fields = append(fields, schema.NewInt64Node(c.name, parquet.Repetitions.Optional, id))
			continue
		}
		field, err := schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Optional, schema.StringLogicalType{}, parquet.Types.ByteArray, 0, id)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
}

// file writes a file with keys and a table's columns. All values of the bomb's columns share
// memory; other columns are numbers.
func (b bomb) file(s shape, harmful bool) ([]byte, error) {
	root, err := s.schema(harmful)
	if err != nil {
		return nil, err
	}
	_, size := b.columns()
	keys, present, value := make([]int64, bombRows), make([]int16, bombRows), bytes.Repeat([]byte{0}, size)
	values := make([]parquet.ByteArray, bombRows)
	for i := range keys {
		keys[i], present[i], values[i] = int64(i), 1, value
	}
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(harmful && b == sharedValue), parquet.WithStats(false),
		parquet.WithDataPageSize(128*mebi), parquet.WithDictionaryPageSizeLimit(16*mebi), parquet.WithBatchSize(bombRows))))
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		return nil, err
	}
	for i := range root.NumFields() {
		column, err := group.NextColumn()
		if err != nil {
			return nil, err
		}
		switch column := column.(type) {
		case *file.Int64ColumnChunkWriter:
			levels := present
			if i == 0 {
				levels = nil
			}
			_, err = column.WriteBatch(keys, levels, nil)
		case *file.ByteArrayColumnChunkWriter:
			_, err = column.WriteBatch(values, present, nil)
		default:
			err = fmt.Errorf("a column of %T", column)
		}
		if err != nil {
			return nil, err
		}
		if err := column.Close(); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// filePath returns the path of a file's location.
func filePath(location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", err
	}
	return u.Path, nil
}
