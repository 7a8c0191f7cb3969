package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// computedBy returns the computed columns that streams of a query compute, to return or pack them.
func computedBy(p *plan.Plan, q dataset.Query) []resolve.Output {
	outputs, err := p.Relation.Choose(q.Selection())
	if err != nil {
		outputs = p.Relation.Outputs
	}
	var out []resolve.Output
	var add func(all []resolve.Output)
	add = func(all []resolve.Output) {
		for _, o := range all {
			switch {
			case o.Dense != nil:
				add(o.Parts)
			case o.Computed != nil && !slices.ContainsFunc(out, func(known resolve.Output) bool { return known.Name == o.Name && known.Computed == o.Computed }):
				out = append(out, o)
			}
		}
	}
	add(outputs)
	return out
}

// writeComputed lists the computed columns with their expressions and the columns that these read.
func writeComputed(b *strings.Builder, p *plan.Plan, q dataset.Query) {
	all := computedBy(p, q)
	if len(all) == 0 {
		return
	}
	b.WriteString("\ncomputed\n")
	for _, o := range all {
		fmt.Fprintf(b, "  %s = %s", o.Name, o.Computed.Text)
		if text := o.Computed.Expr.String(); text != o.Computed.Text {
			fmt.Fprintf(b, "; in full %s", text)
		}
		fmt.Fprintf(b, "; reads %s\n", strings.Join(named(o.Parts), ", "))
	}
}

// writeFitted lists the fitted lists that the computed columns and the filter of a query use.
func writeFitted(b *strings.Builder, p *plan.Plan, q dataset.Query) {
	computed, title := computedBy(p, q), "\nfitted\n"
	for _, f := range p.Relation.Dataset.Fitted {
		isUsed := func(o resolve.Output) bool { return slices.Contains(o.Computed.Expr.Lists(), f.List) }
		if f.List != nil && (slices.ContainsFunc(computed, isUsed) || strings.Contains(p.Rows.Filter.String(), f.List.Digest())) {
			fmt.Fprintf(b, "%s  %s = FITTED '%s', %s of a file with the digest %s\n", title, f.Name, f.List.Digest(), plan.Counted(f.List.Len(), "value"), f.Digest)
			title = ""
		}
	}
}

// drawComputed adds the names of the computed columns.
func drawComputed(p *plan.Plan, q dataset.Query, last func(what, text string)) {
	if all := computedBy(p, q); len(all) > 0 {
		last("computes", plan.Counted(len(all), "column")+": "+strings.Join(named(all), ", "))
	}
}

func named(outputs []resolve.Output) []string {
	names := make([]string, len(outputs))
	for i, o := range outputs {
		names[i] = o.Name
	}
	return names
}
