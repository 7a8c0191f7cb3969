package joiner

import (
	"testing"
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
			opts := Options{Memory: checked(t)}
			training := table{fields: columns(t, "k long", "at "+c.training), rows: rows{{"1", null}}}
			staging := table{fields: columns(t, "r long", "when "+c.staging), rows: rows{{"1", null}}}
			probe := staging.probe(t, 2, Rule{Name: "history", Time: &TimeRule{Column: 1}}, BuildSpec{Time: new(1)}, opts)
			r, err := Join(t.Context(), training.input(t, opts.Memory, nil, []int{0}), []Probe{probe}, opts)
			suits(t, r, err, c.fails)
		})
	}
}
