package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// overlay is a replacement of a training column: where the row matched, a field of the
// staging row replaces the value.
type overlay struct {
	probe     int
	field     int
	keepNulls bool
}

// references are references of rows of the result to a dictionary.
type references struct {
	dictionary *array.Struct
	refs       []int32
}

// addOverlays adds the training columns that a probe replaces, which may become
// nullable.
func (j *join) addOverlays(p *probe, fields []arrow.Field) error {
	if len(p.Rule.Overlays) > 0 && !p.Rule.Kind.Replaces() {
		return fault.New(fault.Internal, "%s replaces training columns without being an overlay", p.Rule.Name)
	}
	for _, o := range p.Rule.Overlays {
		if o.Training < 0 || o.Training >= len(fields) || o.Field < 0 || o.Field >= len(p.Columns) {
			return fault.New(fault.Internal, "%s overlays column %d of %d with field %d of %d", p.Rule.Name,
				o.Training, len(fields), o.Field, len(p.Columns))
		}
		training, staging := &fields[o.Training], p.Columns[o.Field]
		if !arrow.TypeEqual(training.Type, staging.Type) {
			return fault.New(fault.Invalid, "training column %s is %s and %s has %s for it",
				training.Name, training.Type, p.Rule.Name, staging.Type).
				WithRemedy("cast the column of %s", p.Rule.Name)
		}
		training.Nullable = training.Nullable || p.Rule.Nulls.Replace()
		j.overlays[o.Training] = append(j.overlays[o.Training],
			overlay{probe: len(j.probes) - 1, field: o.Field, keepNulls: !p.Rule.Nulls.Replace()})
	}
	return nil
}

// overlayColumn returns a training column with its overlays applied, later ones last. rows
// are the column's rows in the result; nil means each row once.
func (j *join) overlayColumn(column arrow.Array, rows []int32, overlays []overlay, by []references) (arrow.Array, error) {
	sources := []arrow.Array{column}
	n := column.Len()
	if rows != nil {
		n = len(rows)
	}
	which, at := make([]int32, n), make([]int32, n)
	if rows != nil {
		copy(at, rows)
	} else {
		for i := range at {
			at[i] = int32(i)
		}
	}
	for _, o := range overlays {
		values := by[o.probe].dictionary.Field(o.field)
		source := int32(len(sources))
		sources = append(sources, values)
		keepNulls := o.keepNulls && values.NullN() > 0
		for i, ref := range by[o.probe].refs {
			if ref == 0 || keepNulls && values.IsNull(int(ref)) {
				continue
			}
			which[i], at[i] = source, ref
		}
	}
	return batch.Choose(column.DataType(), sources, which, at, j.mem)
}

// batchReferences returns the references of the current batch.
func (j *join) batchReferences() []references {
	out := make([]references, len(j.probes))
	for i, p := range j.probes {
		out[i] = references{p.matches.Dictionary, p.refs}
	}
	return out
}
