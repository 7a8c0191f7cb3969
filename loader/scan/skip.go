package scan

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// mayPass reports whether rows of a row group may pass the source's filter. It uses bloom filters,
// and the page index of columns that have no bounds in the footer.
func (w *walk) mayPass(ctx context.Context, o *opened, group int, admit admission) (bool, error) {
	if may, err := mayHold(ctx, w.source, o, group); !may || err != nil {
		return false, err
	}
	indexed := map[string]expr.Range{}
	for _, column := range w.source.Filter.Columns() {
		if r, ok := known(w.source, o, group, column); ok && (r.HasLower || r.HasUpper || r.Nulls == r.Rows) {
			continue
		}
		field, ok := w.source.Table.Field(column)
		if _, constant := o.constants[field.ID]; !ok || constant {
			continue
		}
		r, ok, err := w.pageRange(ctx, o, group, field, admit)
		if err != nil {
			return false, err
		}
		if ok {
			indexed[column] = r
		}
	}
	return len(indexed) == 0 || w.source.Filter.MayMatch(func(column string) (expr.Range, bool) {
		if r, ok := indexed[column]; ok {
			return r, true
		}
		return known(w.source, o, group, column)
	}), nil
}

// pageRange reserves memory for the page index of a column in a row group, and returns the
// column's range according to it.
func (w *walk) pageRange(ctx context.Context, o *opened, group int, field catalog.Field, admit admission) (expr.Range, bool, error) {
	bytes, ok := o.HasPageStatistics(group, field.ID)
	if !ok {
		return expr.Range{}, false, nil
	}
	if err := admit(ctx, bytes, 0); err != nil {
		return expr.Range{}, false, err
	}
	index := budget.NewBuffer(make([]byte, bytes), w.queue.held.Split(bytes))
	defer index.Release()
	s, err := o.PageStatistics(ctx, group, field.ID, field.Type, index)
	return rangeOf(s), true, err
}

// mayHold reports whether rows of a row group may pass the source's filter. It uses the bloom
// filters of columns that the filter compares with listed values.
func mayHold(ctx context.Context, source plan.Source, o *opened, group int) (bool, error) {
	var failed error
	may := source.Filter.MayHold(func(column string, values []expr.Value) bool {
		field, ok := source.Table.Field(column)
		if _, constant := o.constants[field.ID]; !ok || constant || failed != nil {
			return true
		}
		wanted := make([]any, len(values))
		for i, v := range values {
			wanted[i] = plainOf(v, field.Type)
		}
		var may bool
		may, failed = o.MayHold(ctx, group, field.ID, field.Type, wanted)
		return may
	})
	return may, failed
}

// plainOf converts a value of the filter for a bloom filter; nil: it cannot be converted.
func plainOf(v expr.Value, kind arrow.DataType) any {
	if n, ok := v.Integer(); ok {
		return n
	}
	if text, ok := v.Text(); ok {
		return text
	}
	if d, ok := kind.(arrow.DecimalType); ok {
		if n, ok := v.Unscaled(int(d.GetScale())); ok {
			return n
		}
	}
	return nil
}
