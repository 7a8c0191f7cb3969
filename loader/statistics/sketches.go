package statistics

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
)

// ToKeep are statistics to keep with the table.
type ToKeep struct {
	UUID   string // of the table
	Result *Result
	// Fields are the ids of the columns of the result.
	Fields []int
	// Sketches are the theta sketches of the columns that have one.
	Sketches []Sketch
}

// Sketch is a serialized theta sketch of the values of a column.
type Sketch struct {
	Field    int // the column's id
	Distinct int64
	Bytes    []byte
}

// keepResult calls Request.Keep, if there is one. The memory of the sketches is charged until it returns.
func (d *describing) keepResult(ctx context.Context) error {
	if d.request.Keep == nil {
		return nil
	}
	name := d.request.History.Name
	if d.result.Snapshot == 0 {
		return fault.New(fault.Invalid, "table %s has no snapshot whose statistics could be kept", name).In(name, "").WithRemedy("leave out --keep, or write rows to the table first")
	}
	out := ToKeep{UUID: d.table.Pin.UUID, Result: &d.result}
	distinct := map[string]int64{}
	for _, s := range d.result.Columns {
		if s.Distinct != nil {
			distinct[s.Name] = *s.Distinct
		}
	}
	for i, f := range d.columns {
		out.Fields = append(out.Fields, f.ID)
		if !d.whole.Columns[i].Sketched() {
			continue
		}
		if err := d.held.GrowWait(ctx, stats.SketchBytes); err != nil {
			return err
		}
		out.Sketches = append(out.Sketches, Sketch{Field: f.ID, Distinct: distinct[f.Name], Bytes: d.whole.Columns[i].Sketch()})
	}
	kept, err := d.request.Keep(ctx, out)
	d.result.Kept = kept
	return err
}
