package plan

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// divideFilter types the query's filter and splits it at its top-level ANDs. It adds conditions
// that name only training columns to the dataset's filter, so that they prune files. The other
// conditions are evaluated after the joins. A computed column in a condition stands for its
// expression.
func (b *Bound) divideFilter(query dataset.Filter) error {
	b.Filter = b.Relation.Filter
	if query.IsZero() {
		return nil
	}
	outputs := b.Relation.Outputs
	query, err := b.Relation.WithLists(query)
	if err != nil {
		return err
	}
	if _, err := resolve.BindConjuncts(query, resolve.Schema(outputs), "filter"); err != nil {
		return b.Relation.Explain(err, query.Expr().Columns()) // with positions in the text of the user
	}
	query, err = b.Relation.Expand(query)
	if err != nil {
		return err
	}
	filters, err := resolve.BindConjuncts(query, resolve.Schema(outputs), "filter")
	if err != nil {
		return err
	}
	if b.Rows.Filter, err = dataset.ParseFilter(expr.All(filters...).String()); err != nil {
		return fault.New(fault.Internal, "read the canonical text of a filter: %w", err)
	}
	late := map[string]bool{} // columns whose values are known only after the joins
	for _, o := range outputs {
		late[o.Name] = afterJoin(o)
	}
	var postJoin []*expr.Filter
	named := map[string]bool{} // columns that conditions of the post-join filter name
	for i, condition := range query.Expr().Conjuncts() {
		columns := condition.Columns()
		if !slices.ContainsFunc(columns, func(name string) bool { return late[name] }) {
			b.Filter = expr.All(b.Filter, filters[i])
			continue
		}
		postJoin = append(postJoin, filters[i])
		for _, name := range columns {
			named[name] = true
		}
	}
	b.PostJoin = expr.All(postJoin...)
	for _, o := range outputs {
		if named[o.Name] {
			b.PostJoinColumns = append(b.PostJoinColumns, o)
		}
	}
	return nil
}

// afterJoin reports whether the value of an output is known only after the join. Values of promoted
// columns count as known only after the join too, so that the same rows are sampled before and
// after a promotion.
func afterJoin(o resolve.Output) bool {
	return o.Promoted || o.Table != resolve.TrainingTable || len(o.Overlays) > 0
}

// bindSample types the query's sample.
func (b *Bound) bindSample(s *dataset.Sample) error {
	if s == nil {
		return nil
	}
	t := b.Relation.Training
	b.Sample = &Sample{To: 1, Rate: s.Rate}
	if s.Hash != nil {
		b.Sample.From, b.Sample.To = s.Hash.From, s.Hash.To
		names := b.Relation.Dataset.Key
		if len(names) == 0 {
			return fault.InvalidField("sample.by", "the dataset has no key to sample by").WithRemedy("give the dataset a key, or sample by rate")
		}
		if !s.By.WholeKey() {
			names = names[:1]
		}
		for _, name := range names {
			f, _ := t.Field(name)
			if b.Relation.Withholds(f) { // sampling by ranges of the column's hash would reveal its values
				return fault.InvalidField("sample.by", "the dataset has no key to sample by").WithRemedy("give the dataset a key, or sample by rate")
			}
			if !bucket.Supported(f.Type) {
				return fault.InvalidField("sample.by", "column %s of type %s cannot be hashed", name, f.Type)
			}
		}
		b.Sample.Columns = names
	}
	where, err := resolve.BindConjuncts(s.Where, b.Relation.TrainingSchema(), "sample.where")
	if err != nil {
		return err
	}
	b.Sample.Where = expr.All(where...)
	b.Rows.Sample = s.Normal()
	return nil
}

// inexact returns the reason why a stream may have another number of rows than the manifests state,
// or "" if it cannot.
func (b *Bound) inexact() string {
	switch r := b.Relation; {
	case b.Filter != nil:
		return "a filter drops rows: " + b.Filter.String()
	case b.Sample != nil:
		return "a sample drops rows"
	case r.Distinct != nil:
		return "distinct drops repeated rows"
	case b.PostJoin != nil:
		return "a filter drops rows: " + b.PostJoin.String()
	}
	for _, s := range b.Relation.Staging {
		switch {
		case !s.Join.KeepsAll():
			return fmt.Sprintf("%s join drops rows: %s", s.Join.Article(), s.Name)
		case s.Duplicates.Multiply():
			return "a row is repeated for each of its matches: " + s.Name
		}
	}
	return ""
}
