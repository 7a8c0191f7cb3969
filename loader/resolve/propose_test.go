package resolve_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// keyed returns a table that is bucketed on its first column, and has others.
func keyed(name, key string, dt arrow.DataType, others ...string) *catalog.Table {
	fields := []catalog.Field{field(1, key, dt, true)}
	for i, o := range others {
		fields = append(fields, field(2+i, o, arrow.BinaryTypes.String, false))
	}
	return table(name, fields, spec(1, 4))
}

func TestProposals(t *testing.T) {
	t.Parallel()
	long, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	pair := func(training, staging string) []dataset.KeyPair {
		return []dataset.KeyPair{{Training: training, Staging: staging}}
	}
	for name, c := range map[string]struct {
		tables []*catalog.Table
		rows   map[string]int64
		want   []dataset.Dataset
	}{
		"nothing": {nil, nil, nil},
		"by their namespaces": {
			[]*catalog.Table{
				keyed("features.user", "req_id", arrow.PrimitiveTypes.Int32, "age"), keyed("features.words", "request_id", text, "x"),
				keyed("ml.events", "request_id", long, "label"), keyed("ml.other", "session", long, "label"),
			},
			nil,
			[]dataset.Dataset{{Name: "events", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.events"}, Staging: []dataset.Staging{
				{Table: "features.user", Name: "user", Key: pair("request_id", "req_id")},
			}}},
		},
		"features without buckets": {
			[]*catalog.Table{
				table("features.user", []catalog.Field{field(1, "age", text, false), field(2, "request_id", long, true)}),
				table("features.other", []catalog.Field{field(1, "req_id", long, true)}), keyed("ml.events", "request_id", long, "label"),
			},
			nil,
			[]dataset.Dataset{{Name: "events", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.events"}, Staging: []dataset.Staging{
				{Table: "features.user", Name: "user", Key: pair("request_id", "request_id")},
			}}},
		},
		"by their rows": {
			[]*catalog.Table{keyed("a.few", "id", long, "x"), keyed("a.many", "id", long, "label"), keyed("a.some", "id", long, "y")},
			map[string]int64{"a.few": 1, "a.many": 9, "a.some": 3},
			[]dataset.Dataset{{Name: "many", Key: []string{"id"}, Training: dataset.Training{Table: "a.many"}, Staging: []dataset.Staging{
				{Table: "a.few", Name: "few", Key: pair("id", "id")}, {Table: "a.some", Name: "some", Key: pair("id", "id")},
			}}},
		},
		"names that are taken": {
			[]*catalog.Table{keyed("features.a.user", "id", long, "label"), keyed("features.b.user", "id", long, "x"), keyed("ml.t", "id", long, "label")},
			nil,
			[]dataset.Dataset{{Name: "t", Key: []string{"id"}, Training: dataset.Training{Table: "ml.t"}, Staging: []dataset.Staging{
				{Table: "features.a.user", Name: "user", Key: pair("id", "id"), Prefix: "user_"},
				{Table: "features.b.user", Name: "features_b_user", Key: pair("id", "id")},
			}}},
		},
	} {
		got := resolve.Propose(c.tables, func(t *catalog.Table) int64 { return c.rows[t.Name] })
		require.Equal(t, c.want, got, name)
	}
}
