package htmlpage

import (
	"html/template"
	"strconv"

	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/svg"
)

// label shows how well columns predict a label.
type label struct {
	Column, Measure, Limit string
	Alarms                 []relation // the columns that probably have the label, or predict it much better than in the base
	Compared               bool       // whether columns have values of a base
	Columns                []relation // the columns that predict the label best
	More                   int        // columns that are not shown
}

// relation shows how well a column predicts a label. Its ID is that of the column.
type relation struct {
	ID, Name, Value, Base, Rows string
	Leak, Risen                 bool
	Picture                     template.HTML
}

const maxRelations = 40

// newLabel returns what the page shows of a label, given the columns of the page; nil without a label.
func newLabel(l *stats.Label, columns []column, summaries []stats.Summary) *label {
	if l == nil {
		return nil
	}
	ids := map[string]string{}
	for i, s := range summaries {
		ids[s.Name] = columns[i].ID
	}
	out := &label{Column: svg.Printable(l.Column, maxName), Measure: "correlation", Limit: strconv.FormatFloat(l.Limit, 'g', -1, 64)}
	gauge := svg.Gauge{From: -1, To: 1}
	if l.Measure == stats.AUC {
		out.Measure, gauge = "AUC", svg.Gauge{Middle: 1. / 2, To: 1} //nolint:mnd // of a column that has nothing to do with the label
	}
	for _, one := range l.Columns {
		if len(out.Columns) >= maxRelations && !one.Leak && !one.Risen {
			continue
		}
		r := relation{ID: ids[one.Column], Name: svg.Printable(one.Column, maxName), Value: strconv.FormatFloat(one.Value, 'f', 4, 64), Rows: svg.Count(one.Rows), Leak: one.Leak, Risen: one.Risen} //nolint:mnd // digits, bits
		if one.Base != nil {
			out.Compared, r.Base = true, strconv.FormatFloat(*one.Base, 'f', 4, 64) //nolint:mnd // digits, bits
		}
		gauge.Title, gauge.Value, gauge.Beyond = out.Measure+" of "+r.Name+": "+r.Value, one.Value, one.Leak
		r.Picture = inline(gauge.Draw())
		out.Columns = append(out.Columns, r)
		if r.Leak || r.Risen {
			out.Alarms = append(out.Alarms, r)
		}
	}
	out.More = len(l.Columns) - len(out.Columns)
	return out
}
