package flight

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/policy"
)

// secretNames are names of two columns that bob may not read: pin is a text and when a number. They are in the training table
// ml.visits, as columns of their own, and in the feature tables, as keys and as times.
//
// featureTime is the name of the number in the feature tables.
type secretNames struct{ pin, when, featureTime string }

// withheldFrom says in which tables the columns are withheld.
type withheldFrom struct{ training, features bool }

// serve serves datasets in which the columns have every role that a configuration can give them. Bob may read all of them but the
// withheld columns.
func (n secretNames) serve(t testing.TB, from withheldFrom) *served {
	t.Helper()
	w := &world{World: scenario.NewWorld(), budget: budget.New(16 << 20), tables: map[string]*catalog.Table{}}
	t.Cleanup(w.Release)
	var rows, users, history []string
	for i := range 120 {
		rows = append(rows, fmt.Sprintf("r%d %d p%d %d c%d", i/3, i, i/3%20, i/3, i%5))
		if i < 20 {
			users = append(users, fmt.Sprintf("p%d %d %d", i, i, i*2))
			history = append(history, fmt.Sprintf("p%d %d %d", i, 0, i), fmt.Sprintf("p%d %d %d", i, 30, i+1))
		}
	}
	w.table(t, "ml.visits", fmt.Sprintf("request_id:string item:long! %s:string %s:long city:string", n.pin, n.when), "bucket(4,"+n.pin+")", rows)
	w.table(t, "features.bypin", fmt.Sprintf("%s:string %s:long score:long", n.pin, n.featureTime), "bucket(4,"+n.pin+")", users)
	w.table(t, "features.history", fmt.Sprintf("%s:string %s:long level:long", n.pin, n.featureTime), "", history)
	w.datasets = n.roles()
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	t.Cleanup(plans.Close)
	l := loader.New(loader.Options{
		Datasets: w.datasets, Catalog: w.World, Scan: w.Scan, Budget: w.budget, Memory: batch.NewAllocator(), Plans: plans, KeepBuildSides: 1 << 20,
	})
	var tables []policy.TableLimits
	if from.training {
		tables = append(tables, policy.TableLimits{Name: "ml.visits", Withheld: []string{n.pin, n.when}})
	}
	if from.features {
		for _, name := range []string{"features.bypin", "features.history"} {
			tables = append(tables, policy.TableLimits{Name: name, Withheld: []string{n.pin, n.featureTime}})
		}
	}
	rules := &policy.Policy{Rules: []policy.AccessRule{
		{Subjects: []string{"bob"}, Read: []string{"*"}, Inline: []string{"*"}, Allow: policy.Actions(), Tables: tables},
	}}
	options := Options{Loader: fanout.New(fanout.Options{Window: 1 << 20, Budget: w.budget}).Over(l), Verifier: l, Authenticate: known}
	options.Observer.StreamEnded = func(StreamEnd) {} // more than the kit has room for
	options.Policy = func() *policy.Policy { return rules }
	return serve(t, options)
}

// roles returns a dataset for each role of the columns.
func (n secretNames) roles() []dataset.Dataset {
	entry := func(name string, change func(*dataset.Staging)) dataset.Staging {
		s := dataset.Staging{
			Table: "features." + name, Name: name, Key: []dataset.KeyPair{{Training: n.pin, Staging: n.pin}},
			Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	of := func(name string, staging ...dataset.Staging) dataset.Dataset {
		return dataset.Dataset{Name: name, Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.visits"}, Staging: staging}
	}
	prefixed := func(s *dataset.Staging) { s.Prefix = "f_" }
	asOf := func(s *dataset.Staging) {
		s.Prefix, s.PointInTime = "h_", &dataset.PointInTime{Training: n.when, Staging: n.featureTime, Tolerance: dataset.Lag{Count: 1000}, Exact: true}
	}
	keyed, grouped, filtered, distinct := of("keyed"), of("grouped", entry("bypin", prefixed)), of("filtered"), of("distinct")
	keyed.Key = []string{n.pin}
	grouped.Training.RequestLevel = []string{n.pin, n.when}
	filtered.Training.Filter = datasettest.Filter(n.when + " < 30 AND " + n.pin + " <> 'p3'")
	distinct.Training.Distinct = &dataset.Distinct{By: []string{n.pin}, OrderBy: []dataset.OrderBy{{Column: n.when}}}
	return []dataset.Dataset{
		of("key", entry("bypin", prefixed)), of("inner", entry("bypin", func(s *dataset.Staging) { s.Join, s.Prefix = rule.Inner, "f_" })),
		of("named", entry("bypin", func(s *dataset.Staging) {
			s.Columns = []dataset.Column{{Column: n.pin, Name: "f_key"}, {Column: "score"}}
		})),
		of("rows", entry("bypin", func(s *dataset.Staging) { s.Prefix, s.Filter = "f_", datasettest.Filter(n.featureTime+" > 4") })),
		of("first", entry("history", func(s *dataset.Staging) {
			s.Prefix, s.Duplicates, s.OrderBy = "h_", rule.DuplicatesFirst, []dataset.OrderBy{{Column: n.featureTime}}
		})),
		of("refused", entry("history", prefixed)), // keys of several rows: reading fails, and the text must not name them
		of("default", entry("bypin", func(s *dataset.Staging) { s.Prefix, s.MatchedAs, s.MinMatch = "f_", "found", 1 })),
		of("asof", entry("history", asOf)), of("two", entry("bypin", prefixed), entry("history", asOf)),
		keyed, grouped, filtered, distinct,
	}
}

// queriesOf returns queries of a dataset that name a column in each field in which a query can name one.
func queriesOf(name, column string) []string {
	ask := func(more string) string { return fmt.Sprintf(`{"dataset": %q%s}`, name, more) }
	out := []string{
		ask(""), ask(`, "count": "exact"`), ask(`, "wire": "indexed"`), ask(`, "wire": "grouped"`), ask(`, "batch_requests": 2`), ask(`, "endpoints": "splits"`),
		ask(`, "sample": {"hash": [0, 0.5]}`), ask(`, "sample": {"hash": [0, 0.5], "by": "key"}`), ask(`, "order": "shuffled", "seed": 1, "shuffle": "rows"`),
		ask(`, "cursor": {"v": 1}`), ask(`, "since": 1`), ask(`, "stop_at": {}`),
	}
	for _, form := range []string{
		`"columns": [%q]`, `"columns": [{"column": %q, "name": "x"}]`, `"columns": ["item", {"column": %q, "as": "long"}]`, `"columns": [{"column": %q, "as": "category"}]`,
		`"columns": [{"column": "item", "name": %q}]`, `"columns": [{"column": %q, "first": 2}]`, `"columns": [{"column": %q, "default": 1}]`,
		`"dense": {"d": [%q]}`, `"dense": {%q: ["item"]}`, `"dense": {"d": ["item", %q, "city"]}`,
		`"sample": {"hash": [0, 0.5], "by": %q}`, `"order_by": [%q]`, `"request_level": [%q]`, `"distinct": {"by": [%q]}`,
	} {
		out = append(out, ask(", "+fmt.Sprintf(form, column)))
	}
	for _, condition := range []string{"%s = 1", "%s = 'p1'", "%s IS NULL", "%s IN (1, 2)", "%s LIKE 'p%%'", "NOT (%s < 3 OR item = 2)", "item = 1 AND %s > 5"} {
		text := fmt.Sprintf(condition, column)
		out = append(out, ask(fmt.Sprintf(`, "filter": %q`, text)), ask(fmt.Sprintf(`, "sample": {"rate": 0.5, "where": %q}`, text)))
	}
	for _, action := range []string{"explain", "explain_splits", "explain_shape", "explain_coverage", "manifest", "verify", "verify_progress", "status"} {
		out = append(out, action+":"+ask(""), action+":"+ask(fmt.Sprintf(`, "columns": [%q]`, column)))
	}
	for _, more := range []string{"", fmt.Sprintf(`, "columns": [%q]`, column)} {
		out = append(out, `explain_scale:{"scale": "trainers=1,step=1s,rows=8", "query": `+ask(more)+"}")
	}
	return append(out, ask(fmt.Sprintf(`, "with": [{"table": "features.bypin", "name": "again", "prefix": "a_", "key": {"item": %q}}]`, column)))
}

// TestNamesOfWithheldColumnsChangeNoAnswer: two servers differ in the names of withheld columns, which have every role in the
// datasets. A query that names one of them gets the same answer from both, whichever field names it: the server on which the
// column has another name does not know the name at all.
//
// spec: access-14, access-17
func TestNamesOfWithheldColumnsChangeNoAnswer(t *testing.T) {
	t.Parallel()
	for _, from := range []withheldFrom{{training: true}, {training: true, features: true}} {
		names, others := secretNames{"pin", "moment", "at"}, secretNames{"zzkey", "qqtime", "at"}
		if from.features {
			names.featureTime, others.featureTime = names.when, others.when
		}
		one, other := names.serve(t, from), others.serve(t, from)
		columns := []string{"pin", "moment", "pim", "momentt", "PIN", "f_pin", "h_moment", "bypin.pin", "f_key"}
		asked := 0
		for k, d := range names.roles() {
			for i, first := range queriesOf(d.Name, "pin") {
				way := first
				if k > 0 { // the other columns, in turn
					way = queriesOf(d.Name, columns[(i+k)%len(columns)])[i]
				}
				require.Equal(t, plain(other.answer(bob(t), t, way)), plain(one.answer(bob(t), t, way)), "%+v: %s", from, way)
				asked++
			}
		}
		require.Greater(t, asked, 500)
		for _, s := range []*served{one, other} {
			require.NotRegexp(t, `"moment"|"zzkey"`, s.answer(bob(t), t, "list:"))
		}
	}
}

// No failure suggests a table that the client may not read.
//
// spec: access-12
func TestUnknownTablesSuggestNoHiddenOnes(t *testing.T) {
	t.Parallel()
	s, _ := people{}.server(t, Options{})
	for _, query := range []string{
		`{"dataset": {"training": {"table": "ml.salaries"}}}`,
		`{"dataset": {"training": {"table": "ml.people"}, "key": ["request_id"], "staging": [{"table": "ml.salaries", "key": {"request_id": "request_id"}}]}}`,
	} {
		for who, shown := range map[context.Context]bool{alice(t): true, bob(t): false} {
			var trailer metadata.MD
			_, err := s.GetFlightInfo(who, flighttest.Command(query), grpc.Trailer(&trailer))
			code, detail := flighttest.FailureOf(t, err, trailer)
			require.Equal(t, codes.NotFound, code)
			require.Equal(t, shown, strings.Contains(err.Error()+string(jsontext.Of(detail)), "hr.salaries"), err)
			_, err = s.act(who, "verify", []byte(query), grpc.Trailer(&trailer))
			_, detail = flighttest.FailureOf(t, err, trailer)
			require.Equal(t, shown, strings.Contains(err.Error()+string(jsontext.Of(detail)), "hr.salaries"), err)
		}
	}
}
