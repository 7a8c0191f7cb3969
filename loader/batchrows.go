package loader

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// The default batch size: at most defaultBatchRows rows, and no more than are expected
// to fit in defaultBatchBytes. Neither is configurable, so that all replicas choose the
// same size.
const (
	defaultBatchRows  = 8192
	defaultBatchBytes = 64 << 20
)

// BatchRows returns the number of rows of a reading's batches: the requested number, or
// else the default, which depends only on the plan and the columns. If batches consist
// of requests, it returns the number of requests.
func BatchRows(p *plan.Plan, r StreamOptions) (int, error) {
	outputs, err := p.Relation.Choose(r.Selection())
	if err != nil {
		return 0, err
	}
	return batchRows(p, r, outputs), nil
}

func batchRows(p *plan.Plan, r StreamOptions, outputs []resolve.Output) int {
	switch {
	case p.Rows.Requests:
		return r.BatchRequests
	case r.BatchRows != 0:
		return r.BatchRows
	case r.GlobalBatchRows != 0:
		return r.GlobalBatchRows / max(1, r.Shard.Of)
	}
	rows := min(defaultBatchRows, int(defaultBatchBytes/max(1, expectedBytes(p, outputs))))
	return wholeSteps(p, r, rows)
}

// wholeSteps returns the largest multiple of a shard's number of lanes that is at most
// rows, but at least one row per lane.
func wholeSteps(p *plan.Plan, r StreamOptions, rows int) int {
	lanes := max(1, len(p.Lanes)/max(1, r.Shard.Of))
	return max(1, rows/lanes) * lanes
}

// fits refuses a batch size that takes more than limit bytes even if all values have
// their minimum size; 0 means no limit. Other batches are checked when they are
// assembled.
func fits(p *plan.Plan, r StreamOptions, outputs []resolve.Output, limit int64) error {
	least, rows := leastBits(r.Wire, outputs), int64(batchRows(p, r, outputs))
	if limit == 0 || least == 0 || r.BatchRows == 0 && r.GlobalBatchRows == 0 && !p.Rows.Requests || rows <= limit*8/least {
		return nil
	}
	most := limit * 8 / least
	field, times := r.sizedBy()
	e := fault.InvalidField(field, "a batch of %s takes at least %d bytes, more than the server's limit of %d (max_batch_bytes); at most %d can fit",
		fault.Count(rows, "row"), rows*least/8, limit, most)
	likely := min(most, limit/max(1, expectedBytes(p, outputs)))
	return e.WithRemedy("ask for %s of at most %d, or for fewer columns; or raise max_batch_bytes", field, times*wholeSteps(p, r, int(likely)))
}

// globalOf returns the number of shards among which a step's rows are divided; 0 if the
// query sets the rows of a single batch.
func (r StreamOptions) globalOf() int {
	if r.GlobalBatchRows == 0 {
		return 0
	}
	return max(1, r.Shard.Of)
}

// sizedBy returns the query field that sets the batch size, and the number of batches
// whose rows the field counts.
func (r StreamOptions) sizedBy() (field string, times int) {
	if r.BatchRequests != 0 {
		return "batch_requests", 1
	}
	if of := r.globalOf(); of > 0 {
		return "global_batch_rows", of
	}
	return "batch_rows", 1
}

// leastBits returns the minimum size of a row in bits: the values of fixed-width
// columns, and the offsets of the others.
func leastBits(wire dataset.Wire, outputs []resolve.Output) int64 {
	bits, tables := int64(0), map[int]bool{}
	indexed, _ := wire.Indexed() // an invalid wire is refused when the schema is made
	for _, o := range outputs {
		switch {
		case indexed && o.Request:
			tables[resolve.RequestTable] = true
		case indexed && o.Table != resolve.TrainingTable:
			tables[o.Table] = true
		default:
			bits += widthBits(o.Type())
		}
	}
	if wire.Auto() { // a table may take less than its indices
		return bits
	}
	return bits + int64(len(tables)*arrow.Int32SizeBytes*8)
}

// widthBits returns the minimum size of a value of a type in bits.
func widthBits(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.NullType:
		return 0
	case *arrow.StructType:
		bits := int64(0)
		for _, f := range dt.Fields() {
			bits += widthBits(f.Type)
		}
		return bits
	case *arrow.FixedSizeListType:
		return int64(dt.Len()) * widthBits(dt.Elem())
	case arrow.OffsetsDataType:
		return int64(dt.OffsetTypeTraits().BytesRequired(1)) * 8
	case arrow.FixedWidthDataType:
		return int64(dt.BitWidth())
	default:
		return 0
	}
}

// unpacked is roughly the ratio of the size of values in memory to their size in files.
const unpacked = 4

// expectedBytes estimates the size of a row from the sizes of the plan's files and the
// share of the columns in them. It is used only to choose defaults.
func expectedBytes(p *plan.Plan, outputs []resolve.Output) int64 {
	asked := map[int]int64{}
	least := int64(0)
	for _, o := range resolve.Leaves(outputs) {
		asked[o.Table] += weight(o.Type())
	}
	for _, o := range outputs {
		least += widthBits(o.Type())
	}
	expected := int64(0)
	for table, part := range asked {
		bytes, rows, pinned := storedSize(p, table)
		if rows > 0 {
			expected += unpacked * bytes / rows * min(part, allOf(pinned)) / max(1, allOf(pinned))
		}
	}
	return max(expected, least/8)
}

// storedSize returns the bytes and rows of a table's files that a plan reads.
func storedSize(p *plan.Plan, table int) (bytes, rows int64, pinned *catalog.Table) {
	if table == resolve.TrainingTable {
		for _, s := range p.Splits {
			for _, f := range s.Files {
				bytes += f.File.Bytes
				rows += f.File.Rows
			}
		}
		return bytes, rows, p.Relation.Training
	}
	for _, g := range p.Staging[table].Groups {
		bytes += g.Bytes
		rows += g.Rows
	}
	return bytes, rows, p.Relation.Staging[table].Pinned
}

// allOf returns the total weight of a table's columns.
func allOf(t *catalog.Table) int64 {
	sum := int64(0)
	for _, f := range t.Fields {
		sum += weight(f.Type)
	}
	return sum
}

// The assumed contents of strings and lists when columns are weighed against each
// other.
const (
	expectedText  = 16
	expectedItems = 32
)

// weight estimates the bytes that a value of a type takes in a file.
func weight(dt arrow.DataType) int64 {
	switch dt := dt.(type) {
	case *arrow.StructType:
		sum := int64(0)
		for _, f := range dt.Fields() {
			sum += weight(f.Type)
		}
		return sum
	case *arrow.FixedSizeListType:
		return int64(dt.Len()) * weight(dt.Elem())
	case arrow.ListLikeType:
		return expectedItems * weight(dt.Elem())
	case arrow.BinaryDataType:
		return expectedText
	default:
		return max(1, widthBits(dt)/8)
	}
}
