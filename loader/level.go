package loader

import (
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// level is one staging table as a stream reads it.
type level struct {
	staging int             // index in the plan
	bound   resolve.Staging // the entry, bound to its table
	read    columns         // key columns, then what is shown, then what rows are ordered by
	shown   []shown
	key     []int // positions of the key in splits.read
	rule    joiner.Rule
	recipe  joiner.BuildSpec
	text    string            // all that a side is made of, beside its files
	divided map[int]*division // by class
	classes map[int]*class    // those that some lane of the stream holds or will need again
	left    map[int]int       // by class: the stream's pieces that need it and were not opened yet
	met     met
}

// shown is a field of the level's dictionary.
type shown struct {
	column
	at       int         // position in level.read
	fallback arrow.Array // of rows without a match, of the column's type in the stream; nil is null
}

// newLevel returns nil for a staging table that changes nothing: no column of
// it is asked for, and its rules neither drop nor repeat rows nor can fail.
// Training columns that the level needs are added to what the stream reads.
func newLevel(s *splits, staging int, outputs []resolve.Output) (*level, error) {
	r := s.plan.Relation.Staging[staging]
	l := &level{staging: staging, bound: r, classes: map[int]*class{}, left: map[int]int{}, rule: ruleOf(r), recipe: joiner.BuildSpec{Name: r.Name}}
	for _, k := range r.Keys {
		l.read.add(column{field: k.Staging})
	}
	for _, o := range outputs {
		switch {
		case o.Table == staging && o.Matched:
			l.recipe.Matched = o.Name
		case o.Table == staging:
			l.show(column{field: o.Field, shapes: o.Shapes}, o.Default)
		case o.Table == resolve.TrainingTable:
			l.overlay(s, o)
		}
	}
	if l.harmless() {
		return nil, nil //nolint:nilnil // it is not read
	}
	l.cook()
	if r.Time != nil {
		at := l.read.add(column{field: r.Time.Staging})
		l.recipe.Time = &at
		l.rule.Time = &joiner.TimeRule{Column: s.read.add(column{field: r.Time.Training}), Tolerance: r.Time.Tolerance, Exact: r.Time.Exact}
	}
	for _, k := range r.Keys {
		l.key = append(l.key, s.read.add(column{field: k.Training}))
	}
	var err error
	if l.recipe.Custom, err = s.options.custom(r.Staging, "strategy"); err != nil {
		return nil, fault.Op(err, "join %s", r.Name)
	}
	l.text, l.divided = l.describe(), l.divisions(s.plan)
	return l, nil
}

// ruleOf says in the joiner's terms how an entry is joined.
func ruleOf(r resolve.Staging) joiner.Rule {
	return joiner.Rule{Name: r.Name, Kind: r.Join, Missing: r.Missing, Duplicates: r.Duplicates, Nulls: r.Nulls}
}

// harmless says whether leaving the level out changes no row and no error.
func (l *level) harmless() bool {
	fails := l.rule.Missing.Fail() || l.rule.Duplicates.Fail() || l.bound.MinMatch > 0
	return len(l.shown) == 0 && l.recipe.Matched == "" && l.rule.Kind.KeepsAll() && !fails && !l.rule.Duplicates.Multiply()
}

// show returns the field of the dictionary for a column, adding it if it is
// new.
func (l *level) show(c column, fallback arrow.Array) int {
	i := l.field(c, fallback)
	if i < 0 {
		l.shown = append(l.shown, shown{column: c, at: l.read.add(c), fallback: fallback})
		i = len(l.shown) - 1
	}
	return i
}

func (l *level) field(c column, fallback arrow.Array) int {
	return slices.IndexFunc(l.shown, func(o shown) bool { return o.same(c) && o.fallback == fallback })
}

// overlay lets the level replace a training output that it overlays.
func (l *level) overlay(s *splits, o resolve.Output) {
	for _, over := range o.Overlays {
		if over.Table != l.staging {
			continue
		}
		replaced := joiner.OverlayColumn{
			Training: s.place(o),
			Field:    l.show(column{field: over.Field, shapes: o.Shapes}, nil),
		}
		if !slices.Contains(l.rule.Overlays, replaced) {
			l.rule.Overlays = append(l.rule.Overlays, replaced)
		}
	}
}

// cook fills in the recipe: defaults, order and how the level is searched.
func (l *level) cook() {
	for _, c := range l.shown {
		l.recipe.Defaults = append(l.recipe.Defaults, c.fallback)
	}
	for _, o := range l.bound.Order {
		l.recipe.OrderBy = append(l.recipe.OrderBy, joiner.Order{Column: l.read.add(column{field: o.Field}), Descending: o.Descending})
	}
	l.recipe.Strategy = l.bound.Strategy
}

// custom returns the custom strategy that a staging entry's field names; nil if
// it names another one.
func (o Options) custom(s dataset.Staging, field string) (joiner.Custom, error) {
	if !s.Strategy.Custom() {
		return nil, nil //nolint:nilnil // it is searched otherwise
	}
	name := s.Custom
	if custom := o.Strategies[name]; custom != nil {
		return custom, nil
	}
	e := fault.InvalidField(field, "no strategy is registered as %q", name)
	e.Faults[0].Nearest = fault.Nearest(name, slices.Sorted(maps.Keys(o.Strategies)))
	return nil, e.WithRemedy("register it where the server is put together, or take another strategy")
}

// positions returns where the level's key stands in what is read of it.
func (l *level) positions() []int {
	at := make([]int, len(l.bound.Keys))
	for i := range at {
		at[i] = i
	}
	return at
}

// kept returns where the shown columns stand in what is read of the level.
func (l *level) kept() []int {
	at := make([]int, len(l.shown))
	for i, c := range l.shown {
		at[i] = c.at
	}
	return at
}

// fields returns the shown columns as the dictionary has them.
func (l *level) fields() []arrow.Field {
	fields := make([]arrow.Field, len(l.shown))
	for i, c := range l.shown {
		fields[i] = c.arrow()
	}
	return fields
}
