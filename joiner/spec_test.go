package joiner_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// Every reservation of a build side with times, orders, defaults and duplicates may fail, and
// leaves nothing reserved.
// spec: join-20
func TestBudgetOfRules(t *testing.T) {
	mem := joinertest.Checked(t)
	_, staging := ruleTables(t, "", "7 10 a 1, 7 20 b 2, 7 20 c 1, 7 - d 3, 8 10 e 1")
	for _, strategy := range []rule.Strategy{rule.StrategyAuto, rule.StrategyIndex} {
		in, done := staging.Input(t, mem, []int{0}, []int{2, 3}), false
		for limit := int64(0); !done; limit += 16 {
			b := budget.New(limit)
			built, err := joiner.Build(t.Context(), in, joiner.BuildSpec{
				Name: "s", Matched: "has", Time: new(1), OrderBy: []joiner.Order{{Column: 3}},
				Defaults: []arrow.Array{words(t, "none")}, Strategy: strategy,
			}, joiner.Options{Memory: mem, Budget: b})
			if err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(err))
				require.Zero(t, b.Used())
				continue
			}
			require.Equal(t, b.Used(), built.Bytes())
			require.GreaterOrEqual(t, built.Bytes(), joiner.Holds(built))
			require.LessOrEqual(t, built.Bytes(), joiner.Holds(built)+joiner.Word)
			built.Release()
			require.Zero(t, b.Used())
			done = true
		}
	}
}

func TestInvalidBuildSpecs(t *testing.T) {
	_, staging := ruleTables(t, "", "7 10 a 1")
	training, _ := ruleTables(t, "7 10 a", "")
	cases := map[string]struct {
		change func(*joiner.BuildSpec, *joiner.Probe)
		want   string
	}{
		"a default of another type": {func(r *joiner.BuildSpec, _ *joiner.Probe) { r.Defaults = []arrow.Array{nil, words(t, "x")} }, "default 1 of s is not one value"},
		"a default of two values":   {func(r *joiner.BuildSpec, _ *joiner.Probe) { r.Defaults = []arrow.Array{words(t, "x", "y")} }, "default 0 of s is not one value"},
		"a default of no column":    {func(r *joiner.BuildSpec, _ *joiner.Probe) { r.Defaults = []arrow.Array{nil, nil, words(t, "x")} }, "default 2 of s is not one value"},
		"an order column out of range": {
			func(r *joiner.BuildSpec, _ *joiner.Probe) { r.OrderBy = []joiner.Order{{Column: 9}} }, "position 9 is not in a stream of 4 columns",
		},
		"a time column out of range":   {func(r *joiner.BuildSpec, _ *joiner.Probe) { r.Time = new(-1) }, "position -1"},
		"a training time out of range": {func(_ *joiner.BuildSpec, p *joiner.Probe) { p.Rule.Time = &joiner.TimeRule{Column: 5} }, "position 5"},
		"only the rule has a time":     {func(_ *joiner.BuildSpec, p *joiner.Probe) { p.Rule.Time = &joiner.TimeRule{Column: 1} }, "the rule has a time and the build side has none"},
		"another matched field":        {func(r *joiner.BuildSpec, _ *joiner.Probe) { r.Matched = "has" }, "and not dictionary"},
		"an overlay of a left join":    {func(_ *joiner.BuildSpec, p *joiner.Probe) { p.Rule.Overlays = []joiner.OverlayColumn{{}} }, "without being an overlay"},
		"an overlay of nothing": {func(_ *joiner.BuildSpec, p *joiner.Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []joiner.OverlayColumn{{Training: 3}}
		}, "overlays column 3 of 3 with field 0 of 2"},
		"an overlay with nothing": {func(_ *joiner.BuildSpec, p *joiner.Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []joiner.OverlayColumn{{Field: 2}}
		}, "with field 2 of 2"},
		"an overlay of another type": {func(_ *joiner.BuildSpec, p *joiner.Probe) {
			p.Rule.Kind, p.Rule.Overlays = rule.Overlay, []joiner.OverlayColumn{{Training: 2, Field: 1}}
		}, "training column word is utf8 and s has int64 for it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mem := joinertest.Checked(t)
			spec := joiner.BuildSpec{Name: "s"}
			probe := joiner.Probe{Rule: joiner.Rule{Name: "s"}, Key: []int{0}, Columns: staging.Fields[2:]}
			c.change(&spec, &probe)
			probe.BuildSide = joinertest.Built(staging.Input(t, mem, []int{0}, []int{2, 3}), spec, joiner.Options{Memory: mem})
			r, err := joiner.Join(t.Context(), training.Input(t, mem, nil, []int{0, 1, 2}), []joiner.Probe{probe}, joiner.Options{Memory: mem})
			if err == nil {
				_, _, err = joinertest.Drain(t, r)
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
