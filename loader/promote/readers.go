package promote

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// ReaderOptions are the options of a check of the datasets that read the training table.
type ReaderOptions struct {
	// NoCheck makes the change even if a dataset cannot be read after it, or has other values.
	NoCheck bool
	// Shown reports whether errors may name a dataset; nil: they may name every dataset.
	Shown func(dataset string) bool
}

// effects returns the effects of a change on the datasets that read the table.
func (p *Promoter) effects(ctx context.Context, change loader.SchemaChange, o ReaderOptions) ([]loader.SchemaEffect, error) {
	if p.options.Effects == nil || o.NoCheck {
		return nil, nil
	}
	if o.Shown == nil {
		o.Shown = func(string) bool { return true }
	}
	return p.options.Effects(ctx, change, o.Shown)
}

// checkReaders returns Conflict if a dataset can be read now, but not with the new columns, or if it would have other values or
// types in its columns, or would not have one of them.
func (p *promoting) checkReaders(ctx context.Context) error {
	from := p.named()
	effects, err := p.effects(ctx, loader.SchemaChange{Table: p.shown, From: from, To: p.edit().Edited(from, p.added())}, p.request.ReaderOptions)
	if err != nil {
		return err
	}
	if len(effects) > 0 {
		return refusal(p.shown, effects[0], "after the promotion of "+p.promotedText(effects[0])).
			WithRemedy("give the dataset the same entry, or rename its column of that name, or remove the dataset; --no-check promotes nevertheless (no_check=True in Python)")
	}
	return nil
}

// added returns the new columns as a catalog describes them.
func (p *promoting) added() []catalog.Field {
	out := make([]catalog.Field, len(p.definition.columns))
	for i, c := range p.definition.columns {
		out[i] = catalog.Field{ID: c.column.ID, Name: c.name, Type: c.typed}
	}
	return out
}

// promotedText names the promoted columns that have an effect on a dataset, with their entries. If these columns are not known,
// it names all.
func (p *promoting) promotedText(e loader.SchemaEffect) string {
	var all, some []string
	for _, c := range p.definition.columns {
		text := "column " + c.name + " of entry " + c.entry
		if all = append(all, text); slices.Contains(e.Changed, c.name) {
			some = append(some, text)
		}
	}
	if some != nil {
		all = some
	}
	return strings.Join(all, ", ")
}

// checkReaders returns Conflict if a dataset can be read now, but not without the columns, or if it would have other values or types
// in its columns. It records the datasets that lose columns.
func (d *demoting) checkReaders(ctx context.Context, edit commit.SchemaEdit) error {
	from := d.named()
	effects, err := d.effects(ctx, loader.SchemaChange{Table: d.shown, From: from, To: edit.Edited(from, nil)}, d.request.ReaderOptions)
	if err != nil {
		return err
	}
	for _, e := range effects {
		if e.Broken != nil || len(e.Changed) > 0 {
			return refusal(d.shown, e, "after column "+strings.Join(d.result.Dropped, ", ")+" is taken back").
				WithRemedy("change or remove the dataset; --no-check takes the columns back nevertheless (no_check=True in Python)")
		}
		if e.Dataset == "" {
			continue
		}
		if d.result.Losing == nil {
			d.result.Losing = map[string][]string{}
		}
		d.result.Losing[e.Dataset] = e.Lost
	}
	return nil
}

// refusal returns Conflict for a change of a table's schema that would break a dataset, or change its columns. after says after
// which change.
func refusal(table string, e loader.SchemaEffect, after string) *fault.Error {
	text, why := "", ""
	switch {
	case e.Broken != nil:
		text = e.Subject() + " could not be read"
		if e.Dataset != "" {
			why = ": " + fault.As(e.Broken).Message
		}
	case len(e.Changed) > 0:
		text = "column " + strings.Join(e.Changed, ", ") + " of " + e.Subject() + " would have other values or another type"
	default:
		text = e.Subject() + " would not have column " + strings.Join(e.Lost, ", ")
	}
	return fault.New(fault.Conflict, "%s %s%s", text, after, why).In(table, "")
}
