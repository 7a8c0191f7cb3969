package joiner

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
)

// Every reservation of a side with times, orders, defaults and duplicates may
// fail, and leaves nothing.
// spec: join-20
func TestBudgetOfRules(t *testing.T) {
	mem := checked(t)
	_, staging := ruleTables(t, "", "7 10 a 1, 7 20 b 2, 7 20 c 1, 7 - d 3, 8 10 e 1")
	for _, strategy := range []rule.Strategy{rule.StrategyAuto, rule.StrategyIndex} {
		in, done := staging.input(t, mem, []int{0}, []int{2, 3}), false
		for limit := int64(0); !done; limit += 16 {
			b := budget.New(limit)
			side, err := Build(t.Context(), in, BuildSpec{
				Name: "s", Matched: "has", Time: new(1), OrderBy: []Order{{Column: 3}},
				Defaults: []arrow.Array{words(t, "none")}, Strategy: strategy,
			}, Options{Memory: mem, Budget: b})
			if err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
				require.Zero(t, b.Used())
				continue
			}
			require.Equal(t, b.Used(), side.Bytes())
			require.GreaterOrEqual(t, side.Bytes(), holds(side))
			require.LessOrEqual(t, side.Bytes(), holds(side)+word)
			side.Release()
			require.Zero(t, b.Used())
			done = true
		}
	}
}

func TestBrokenBuildSpecs(t *testing.T) {
	_, staging := ruleTables(t, "", "7 10 a 1")
	training, _ := ruleTables(t, "7 10 a", "")
	cases := map[string]struct {
		change func(*BuildSpec, *Probe)
		want   string
	}{
		"a default of another type": {func(r *BuildSpec, _ *Probe) { r.Defaults = []arrow.Array{nil, words(t, "x")} }, "default 1 of s is not one value"},
		"a default of two values":   {func(r *BuildSpec, _ *Probe) { r.Defaults = []arrow.Array{words(t, "x", "y")} }, "default 0 of s is not one value"},
		"a default of no column":    {func(r *BuildSpec, _ *Probe) { r.Defaults = []arrow.Array{nil, nil, words(t, "x")} }, "default 2 of s is not one value"},
		"an order that is not there": {
			func(r *BuildSpec, _ *Probe) { r.OrderBy = []Order{{Column: 9}} }, "position 9 in a stream of 4 columns",
		},
		"a time that is not there":        {func(r *BuildSpec, _ *Probe) { r.Time = new(-1) }, "position -1"},
		"a training time that is not":     {func(_ *BuildSpec, p *Probe) { p.Rule.Time = &TimeRule{Column: 5} }, "position 5"},
		"a rule with a time, a side none": {func(_ *BuildSpec, p *Probe) { p.Rule.Time = &TimeRule{Column: 1} }, "a side without times"},
		"another matched field":           {func(r *BuildSpec, _ *Probe) { r.Matched = "has" }, "was to be dictionary"},
		"an overlay of a left join":       {func(_ *BuildSpec, p *Probe) { p.Rule.Overlays = []OverlayColumn{{}} }, "without being an overlay"},
		"an overlay of nothing": {func(_ *BuildSpec, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []OverlayColumn{{Training: 3}}
		}, "overlays column 3 of 3 with field 0 of 2"},
		"an overlay with nothing": {func(_ *BuildSpec, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []OverlayColumn{{Field: 2}}
		}, "with field 2 of 2"},
		"an overlay of another type": {func(_ *BuildSpec, p *Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []OverlayColumn{{Training: 2, Field: 1}}
		}, "training column word is utf8 and s has int64 for it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := checked(t)
			spec := BuildSpec{Name: "s"}
			probe := Probe{Rule: Rule{Name: "s"}, Key: []int{0}, Columns: staging.fields[2:]}
			c.change(&spec, &probe)
			probe.BuildSide = built(staging.input(t, mem, []int{0}, []int{2, 3}), spec, Options{Memory: mem})
			r, err := Join(t.Context(), training.input(t, mem, nil, []int{0, 1, 2}), []Probe{probe}, Options{Memory: mem})
			if err == nil {
				_, _, err = drain(t, r)
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
