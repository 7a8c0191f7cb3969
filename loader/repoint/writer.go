package repoint

import (
	"context"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
)

// The first format versions with position deletes and with deletion vectors.
const (
	positionsVersion = 2
	vectorsVersion   = 3
)

// Memory that is charged for writing a deletion vector: the number of copies of its blob while the
// file grows, and the bytes of its description.
const (
	blobCopies = 4
	perBlob    = 512
)

// batchRows is the maximum number of positions that are encoded in one batch.
const batchRows = 8192

// deleteWriter writes the delete files of one call.
type deleteWriter struct {
	Options
	table *catalog.Table
	held  *budget.Reservation
	added []catalog.DeleteFile
	// vectors builds the file of deletion vectors.
	vectors puffinFile
}

// file rewrites the deletes of one moved file.
func (w *deleteWriter) file(ctx context.Context, m MovedFile) error {
	if w.Version < positionsVersion {
		return fault.New(fault.Corrupt, "table %s of format version %d has deletes, which are of version 2", w.table.Name, w.Version).In(w.table.Name, m.Old.Location).
			WithRemedy("the table's metadata contradicts itself: roll back to an earlier snapshot")
	}
	positions, err := w.Deletes.Positions(ctx, w.table, m.Old)
	if err != nil {
		return err
	}
	defer positions.Release()
	if positions.Count() == 0 {
		return nil // the file has no deleted rows: the position deletes of its partition name other files
	}
	d := catalog.DeleteFile{
		Kind: catalog.PositionDeletes, Rows: positions.Count(), Spec: m.Old.Spec, Partition: m.Old.Partition, Data: m.New,
	}
	if w.Version >= vectorsVersion {
		d.Kind = catalog.DeletionVector
		err = w.vector(ctx, positions, &d)
	} else {
		err = w.positions(ctx, positions, &d)
	}
	if err == nil {
		w.added = append(w.added, d)
	}
	return err
}

// vector adds a deletion vector to the file of deletion vectors.
func (w *deleteWriter) vector(ctx context.Context, positions *deletes.FilePositions, d *catalog.DeleteFile) error {
	if err := w.held.GrowWait(ctx, blobCopies*positions.Bytes()+perBlob+2*int64(len(d.Data))); err != nil {
		return err
	}
	blob, err := positions.Vector()
	if err != nil {
		return err
	}
	d.Offset, d.Length = w.vectors.add(blob, d.Rows, d.Data)
	return nil
}

// end writes the file of deletion vectors, if there are any.
func (w *deleteWriter) end(ctx context.Context) error {
	if len(w.vectors.blobs) == 0 {
		return nil
	}
	content, err := w.vectors.end()
	if err != nil {
		return fault.New(fault.Internal, "describe deletion vectors of table %s: %w", w.table.Name, err)
	}
	location := w.Name(".puffin")
	for i := range w.added {
		w.added[i].Location, w.added[i].Bytes = location, int64(len(content))
	}
	return w.create(ctx, location, content)
}

// create writes a delete file with the given content.
func (w *deleteWriter) create(ctx context.Context, location string, content []byte) error {
	err := w.held.Lend(content, func(p *memory.Buffer) error { return w.Files.Create(ctx, location, p) })
	if err != nil {
		return fault.As(err).In(w.table.Name, location)
	}
	return nil
}

// positions writes a position delete file for one data file.
func (w *deleteWriter) positions(ctx context.Context, positions *deletes.FilePositions, d *catalog.DeleteFile) error {
	batchBytes := int64(batchRows) * (2*int64(len(d.Data)) + 16) //nolint:mnd // two copies of the location, and the positions
	if err := w.held.GrowWait(ctx, batchBytes); err != nil {
		return err
	}
	defer w.held.Shrink(batchBytes)
	content := &growing{held: w.held}
	schema := deleteSchema()
	file, err := write.New(ctx, content, write.Options{
		Schema: schema, FormatVersion: positionsVersion, Memory: w.held,
		Dictionary: []int{catalog.PathField}, // PyIceberg reads locations as dictionary codes, which pyarrow cannot decode from delta encoding
		Sorting:    []write.SortingColumn{{FieldID: catalog.PathField}, {FieldID: catalog.PositionField}},
	})
	if err != nil {
		return err
	}
	defer file.Release()
	err = positions.Each(make([]int64, 0, batchRows), func(run []int64) error {
		rows := deletesOf(schema, d.Data, run)
		defer rows.Release()
		return file.Write(ctx, rows)
	})
	if err != nil {
		return err
	}
	if _, err := file.Close(ctx); err != nil {
		return err
	}
	d.Location, d.Bytes = w.Name(".parquet"), int64(len(content.bytes))
	err = w.create(ctx, d.Location, content.bytes)
	if err == nil {
		w.held.Shrink(content.charged)
	}
	return err
}

// deleteSchema returns the schema that the specification defines for position deletes.
func deleteSchema() *arrow.Schema {
	id := func(n int) arrow.Metadata {
		return arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(n)})
	}
	return arrow.NewSchema([]arrow.Field{
		{Name: "file_path", Type: arrow.BinaryTypes.String, Metadata: id(catalog.PathField)},
		{Name: "pos", Type: arrow.PrimitiveTypes.Int64, Metadata: id(catalog.PositionField)},
	}, nil)
}

// deletesOf returns a batch of position deletes for a data file: one row for each position in run.
func deletesOf(schema *arrow.Schema, data string, run []int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	paths, at := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.Int64Builder)
	for range run {
		paths.Append(data)
	}
	at.AppendValues(run, nil)
	return b.NewRecordBatch()
}

// growing is a file in memory that reserves memory as it grows.
type growing struct {
	bytes   []byte
	held    *budget.Reservation
	charged int64
}

// Write implements chunk.Destination.
func (g *growing) Write(ctx context.Context, p []byte) error {
	if need := int64(len(g.bytes) + len(p)); need > g.charged {
		more := max(need, 2*g.charged) - g.charged
		if err := g.held.GrowWait(ctx, more+g.charged); err != nil { // the old and the new copy of the content
			return err
		}
		g.held.Shrink(g.charged)
		g.charged += more
		grown := make([]byte, len(g.bytes), g.charged)
		copy(grown, g.bytes)
		g.bytes = grown
	}
	g.bytes = append(g.bytes, p...)
	return nil
}
