package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// requestInput describes, for indexed streams, the training columns that are constant within a
// request. They form one dictionary column whose references are to rows of the scan's batch. So
// filters, joins and slices move only four bytes per row for all of these columns. When a batch is
// cut, requests are identified by the key that the dictionary contains.
type requestInput struct {
	table  string
	shown  columns // fields of the dictionary
	values []int   // the index of each shown column in Layout.read
	key    []int   // the indices in Layout.read of the request's key, whose columns are the last fields of the dictionary
	fields []arrow.Field
	apart  bool // the columns are not sent once per request after all: each row refers to itself
}

// newRequestInput returns nil if no output is constant within a request. Otherwise it adds the
// columns that the dictionary needs to read.
func newRequestInput(read *columns, r *resolve.Relation, outputs []resolve.Output) *requestInput {
	in := &requestInput{table: r.Training.Name}
	for _, o := range outputs {
		if !o.Request {
			continue
		}
		c := column{field: o.Field, shapes: o.Shapes}
		if in.shown.add(c) == len(in.values) {
			in.values = append(in.values, read.add(c))
			in.fields = append(in.fields, c.arrow())
		}
	}
	if in.values == nil {
		return nil
	}
	for _, f := range r.Request {
		c := column{field: f}
		in.key = append(in.key, read.add(c))
		in.fields = append(in.fields, c.arrow())
	}
	return in
}

// has reports whether the dictionary has the column of an output.
func (in *requestInput) has(o resolve.Output) bool {
	return in != nil && o.Table == resolve.TrainingTable && o.Request
}

// field returns the dictionary's field for an output.
func (in *requestInput) field(o resolve.Output) int {
	return in.shown.add(column{field: o.Field, shapes: o.Shapes})
}

// requests returns the description of the dictionary column for the options of package lane.
func (in *requestInput) requests(index int) *lane.Requests {
	if in == nil {
		return nil
	}
	r := &lane.Requests{Index: index, Table: in.table}
	for i := range in.key {
		r.Key = append(r.Key, len(in.values)+i)
	}
	return r
}

// dictionary returns the type of the dictionary column.
func (in *requestInput) dictionary() *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(in.fields...)}
}

// refer appends the dictionary column to rows, and takes ownership of them. If a row has the same
// request and values as the previous row, it refers to the same row as the previous row. Otherwise
// it refers to itself.
func (in *requestInput) refer(ctx context.Context, rows SourceRows, o Options) (SourceRows, error) {
	held, err := o.Budget.ReserveFor(ctx, "references to the rows of a batch", 0)
	if err != nil {
		rows.Release()
		return nil, err
	}
	dt := in.dictionary()
	schema := arrow.NewSchema(append(slices.Clone(rows.Schema().Fields()), arrow.Field{Name: "request", Type: dt}), nil)
	r := &selfReferring{requestInput: in, rows: rows, held: held, memory: o.Memory, dictionary: dt, schema: schema}
	return derivedRows{RecordReader: batch.FromFuncContext(ctx, schema, r.next, r.release), of: rows}, nil
}

// selfReferring returns rows with a column that refers to rows of the same batch.
type selfReferring struct {
	*requestInput
	rows       SourceRows
	held       *budget.Reservation // for the references of the current batch
	memory     memory.Allocator
	dictionary *arrow.DictionaryType
	schema     *arrow.Schema
	repeated   []bool // for each row of the current batch: whether it equals the previous row
}

func (r *selfReferring) next(ctx context.Context) (arrow.RecordBatch, error) {
	if !r.rows.Next() {
		return nil, r.rows.Err()
	}
	b := r.rows.RecordBatch()
	n := int(b.NumRows())
	if more := batch.AllocatedSize(r.memory, int64(n*arrow.Int32SizeBytes)) + int64(n) - r.held.Held(); more > 0 {
		if err := r.held.GrowWait(ctx, more); err != nil {
			return nil, err
		}
	}
	references := memory.NewResizableBuffer(r.memory)
	defer references.Release()
	references.Resize(n * arrow.Int32SizeBytes)
	r.fill(arrow.Int32Traits.CastFromBytes(references.Bytes()), b)
	fields := make([]arrow.ArrayData, 0, len(r.fields))
	for _, at := range slices.Concat(r.values, r.key) {
		fields = append(fields, b.Column(at).Data())
	}
	own := array.NewData(r.dictionary.ValueType, n, []*memory.Buffer{nil}, fields, 0, 0)
	defer own.Release()
	ownData := array.NewDataWithDictionary(r.dictionary, n, []*memory.Buffer{nil, references}, 0, 0, own)
	defer ownData.Release()
	column := array.NewDictionaryData(ownData)
	defer column.Release()
	return array.NewRecordBatch(r.schema, append(slices.Clone(b.Columns()), column), int64(n)), nil
}

// fill writes the row to which each row refers. The rows of a request are consecutive, so if an
// operation keeps only a few rows, they refer to only a few rows. A row with a null in its key is a
// separate request.
func (r *selfReferring) fill(references []int32, b arrow.RecordBatch) {
	if r.apart {
		for i := range references {
			references[i] = int32(i)
		}
		return
	}
	if cap(r.repeated) < len(references) {
		r.repeated = make([]bool, len(references))
	}
	same := r.repeated[:len(references)]
	key := make([]arrow.Array, len(r.key))
	for i, at := range r.key {
		key[i] = b.Column(at)
	}
	batch.KeyRepeats(key, same)
	for _, at := range r.values {
		batch.Repeats(b.Column(at), same)
	}
	for i := range references {
		references[i] = int32(i)
		if same[i] {
			references[i] = references[i-1]
		}
	}
}

func (r *selfReferring) release() {
	r.rows.Release()
	r.held.Release()
}
