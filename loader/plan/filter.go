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

// bindFilter types the query's filter and divides it: conditions that name
// training columns alone are looked at where those are read, the others after
// the join.
func (b *Bound) bindFilter(query string) error {
	r := b.Relation
	b.Filter = r.Filter
	if query == "" {
		return nil
	}
	columns := slices.Clone(r.Outputs)
	whole, err := resolve.BindFilter(query, resolve.Schema(columns), "filter")
	if err != nil {
		return err
	}
	b.QueryFilter = whole.String()
	parsed, err := expr.Parse(query)
	if err != nil {
		return err
	}
	var before, after *expr.Expr
	for _, condition := range parsed.Conjuncts() {
		joined := slices.ContainsFunc(columns, func(o resolve.Output) bool {
			return afterJoin(o) && slices.Contains(condition.Columns(), o.Name)
		})
		if joined {
			after = expr.And(after, condition)
		} else {
			before = expr.And(before, condition)
		}
	}
	if after != nil {
		b.PostJoinColumns = slices.DeleteFunc(columns, func(o resolve.Output) bool { return !slices.Contains(after.Columns(), o.Name) })
		if b.PostJoin, err = after.Bind(resolve.Schema(b.PostJoinColumns)); err != nil {
			return err
		}
	}
	if before == nil {
		return nil
	}
	if r.Filter != nil {
		ours, err := expr.Parse(r.Dataset.Training.Filter)
		if err != nil {
			return err
		}
		before = expr.And(ours, before)
	}
	b.Filter, err = before.Bind(r.Training.Schema())
	return err
}

// afterJoin says whether an output is known only after the join.
func afterJoin(o resolve.Output) bool {
	return o.Table != resolve.TrainingTable || len(o.Overlays) > 0
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
			if !bucket.Supported(f.Type) {
				return fault.InvalidField("sample.by", "column %s of type %s cannot be hashed", name, f.Type)
			}
		}
		b.Sample.Columns = names
	}
	if s.Where != "" {
		where, err := resolve.BindFilter(s.Where, t.Schema(), "sample.where")
		if err != nil {
			return err
		}
		b.Sample.Where = where
	}
	b.SampleText = s.Canonical()
	return nil
}

// inexact says why the stream may have other rows than the manifests count.
func (p *Plan) inexact() string {
	switch r := p.Relation; {
	case p.Filter != nil:
		return "a filter drops rows: " + p.Filter.String()
	case p.Sample != nil:
		return "a sample drops rows"
	case r.Distinct != nil:
		return "distinct drops repeated rows"
	case p.PostJoin != nil:
		return "a filter drops rows: " + p.PostJoin.String()
	}
	for _, s := range p.Relation.Staging {
		switch {
		case !s.Join.KeepsAll():
			return fmt.Sprintf("%s join drops rows: %s", s.Join.Article(), s.Name)
		case s.Duplicates.Multiply():
			return "a row is repeated for each of its matches: " + s.Name
		}
	}
	return ""
}
