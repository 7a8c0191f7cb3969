package resolve

import "github.com/penstock/penstock/internal/expr"

// outputIndex finds the outputs that expressions may name, by their names: a dataset may have many, and many expressions.
type outputIndex struct {
	all     []Output
	at      map[string][]int // by name: positions in all
	lineage int              // the position of the first column of row lineage, which is no output
	after   int              // the position after the last one
}

// index returns an index of the outputs of the relation and of the columns of row lineage.
func (r *Relation) index() *outputIndex {
	x := &outputIndex{all: make([]Output, 0, 2*len(r.Outputs)), at: make(map[string][]int, 2*len(r.Outputs))}
	for _, o := range r.Outputs {
		x.add(o)
	}
	x.lineage = len(x.all)
	for _, f := range r.Training.Lineage {
		if o := r.lineage(f.Name); o != nil {
			x.add(*o)
		}
	}
	x.after = len(x.all)
	return x
}

func (x *outputIndex) add(o Output) {
	x.at[o.Name] = append(x.at[o.Name], len(x.all))
	x.all = append(x.all, o)
}

// output returns the first output with a name, without columns of row lineage; nil if there is none.
func (x *outputIndex) output(name string) *Output {
	for _, i := range x.at[name] {
		if i < x.lineage || i >= x.after {
			return &x.all[i]
		}
	}
	return nil
}

// named returns the outputs with some names. If one of the names is unknown, it returns all outputs, of which a fault then proposes one.
func (x *outputIndex) named(names []string) []Output {
	var out []Output
	for _, name := range names {
		if len(x.at[name]) == 0 {
			return x.all
		}
		for _, i := range x.at[name] {
			out = append(out, x.all[i])
		}
	}
	return out
}

// expand inserts the expressions of computed outputs into an expression that names them.
func (x *outputIndex) expand(of *expr.ValueExpr) (*expr.ValueExpr, error) {
	var err error
	for _, name := range of.Columns() {
		if o := x.output(name); o != nil && o.Computed != nil {
			if of, err = of.Substitute(name, o.Computed.Expr); err != nil {
				return nil, err
			}
		}
	}
	return of, nil
}
