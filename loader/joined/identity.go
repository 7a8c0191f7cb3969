package joined

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// inputOf identifies everything that the build sides of a staging input depend on, except the files
// of a build side's group. The rule is not included, since only the probe uses it.
type inputOf struct {
	table    string
	pin      dataset.TablePin
	filter   string // the filter of the rows, in canonical form
	keys     []int  // field ids
	read     []columnOf
	shown    []shownOf
	name     string
	matched  string
	orderBy  []joiner.Order
	time     *int
	strategy rule.Strategy
	custom   string
	arrival  string
}

// columnOf identifies a column together with its shapes.
type columnOf struct {
	field  int // id
	shapes []shapeOf
}

type shapeOf struct {
	first, last int
	as          string // type, or ""
}

// shownOf identifies a field of a staging input's dictionary.
type shownOf struct {
	at       int // index into inputOf.read
	fallback *valueOf
}

// valueOf identifies an array of one value.
type valueOf struct {
	of   string // type
	null bool
	text string
}

func (in *stagingInput) identity() string {
	of := inputOf{
		table: in.bound.Pinned.Name, pin: in.bound.Pinned.Pin,
		name: in.spec.Name, matched: in.spec.Matched, orderBy: in.spec.OrderBy, time: in.spec.Time,
		strategy: in.spec.Strategy, custom: in.bound.Custom,
		arrival: in.arrival.Identity(),
	}
	if in.bound.Rows != nil {
		of.filter = in.bound.Rows.String()
	}
	for _, k := range in.bound.Keys {
		of.keys = append(of.keys, k.Staging.ID)
	}
	for _, c := range in.read {
		of.read = append(of.read, identify(c))
	}
	for _, c := range in.shown {
		of.shown = append(of.shown, shownOf{at: c.at, fallback: identifyValue(c.fallback)})
	}
	return digest.Of(of)
}

func identify(c column) columnOf {
	of := columnOf{field: c.field.ID}
	for _, s := range c.shapes {
		shape := shapeOf{first: s.First, last: s.Last}
		if s.As != nil {
			shape.as = s.As.String()
		}
		of.shapes = append(of.shapes, shape)
	}
	return of
}

func identifyValue(a arrow.Array) *valueOf {
	if a == nil {
		return nil
	}
	return &valueOf{of: a.DataType().String(), null: a.IsNull(0), text: a.ValueStr(0)}
}
