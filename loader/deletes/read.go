package deletes

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// read reads columns of a Parquet delete file, as a table of one file.
func (p *Pool) read(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile, columns []catalog.Field, each func(arrow.RecordBatch) error) error {
	source := plan.Source{
		Table: &catalog.Table{Name: t.Name, Pin: t.Pin, Fields: columns}, Complete: true, Planned: catalog.FieldIDs(columns),
		Files: []plan.FileRange{{File: catalog.File{Location: d.Location, Bytes: d.Bytes, Rows: d.Rows, Sequence: d.Sequence}, To: d.Rows}},
	}
	rows, err := p.options.Read(ctx, source, columns)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		if err := each(rows.RecordBatch()); err != nil {
			return fault.As(fault.Op(err, "read %s of %s", d.Kind, t.Name)).In(t.Name, d.Location)
		}
	}
	return rows.Err()
}
