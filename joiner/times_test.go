package joiner_test

import (
	"testing"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
)

// spec: join-38
func TestTimeTypes(t *testing.T) {
	cases := map[string]struct{ training, staging, fails string }{
		"longs":         {"long", "long", ""},
		"int and long":  {"int", "long", ""},
		"dates":         {"date", "date", ""},
		"timestamps":    {"timestamp", "timestamp", ""},
		"zone or none":  {"timestamp", "local", "training column at is timestamp[us, tz=UTC] and staging column when is timestamp[us]"},
		"date and long": {"date", "long", "training column at is date32 and staging column when is int64"},
		"text":          {"string", "string", "column at of type utf8 cannot be a time; name a column of dates"},
		"staging text":  {"long", "string", "column when of type utf8 cannot be a time"},
		"decimal":       {"decimal", "decimal", "column at of type decimal(9, 2) cannot be a time"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			opts := joiner.Options{Memory: joinertest.Checked(t)}
			training := joinertest.Table{Fields: joinertest.Columns(t, "k long", "at "+c.training), Rows: joinertest.Rows{{"1", joinertest.Null}}}
			staging := joinertest.Table{Fields: joinertest.Columns(t, "r long", "when "+c.staging), Rows: joinertest.Rows{{"1", joinertest.Null}}}
			probe := staging.Probe(t, 2, joiner.Rule{Name: "history", Time: &joiner.TimeRule{Column: 1}}, joiner.BuildSpec{Time: new(1)}, opts)
			r, err := joiner.Join(t.Context(), training.Input(t, opts.Memory, nil, []int{0}), []joiner.Probe{probe}, opts)
			joinertest.Suits(t, r, err, c.fails)
		})
	}
}
