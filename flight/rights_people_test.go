package flight

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/policy"
)

// people is a world with secrets: a column email in both tables, and rows of other countries than DE.
type people struct {
	emails  bool // whether the tables have the column
	foreign bool // whether they have the rows
	// filtered: bob gets only the other rows. In any case, he does not get the column note, which the table always has.
	filtered bool
	computed bool // whether the filters are computed
}

// world makes the tables, and the datasets people, of both, and secret, of a table that has no rule.
func (p people) world(t testing.TB) *world {
	t.Helper()
	w := &world{World: scenario.NewWorld(), budget: budget.New(8 << 20), tables: map[string]*catalog.Table{}}
	t.Cleanup(w.Release)
	header, email := "request_id:string item:long! country:string note:string", func(int) string { return "" }
	profile := "req:string country:string"
	if p.emails {
		header, profile = header+" email:string", profile+" email:string"
		email = func(i int) string { return fmt.Sprintf(" e%d", i%13) }
	}
	var rows, profiles []string
	for i := range 300 {
		country := "DE"
		if i%3 > 0 {
			country = "US"
		}
		if i%3 == 0 || p.foreign {
			rows = append(rows, fmt.Sprintf("r%d %d %s n%s", i%50, i, country, email(i)))
		}
		if i < 50 {
			if i%5 > 0 || p.foreign {
				profiles = append(profiles, fmt.Sprintf("r%d %s%s", i, map[bool]string{true: "DE", false: "US"}[i%5 > 0], email(i)))
			}
		}
	}
	w.table(t, "ml.people", header, "bucket(4,request_id)", rows)
	w.table(t, "features.profiles", profile, "bucket(4,req)", profiles)
	w.table(t, "hr.salaries", "request_id:string pay:long", "", []string{"r1 100"})
	w.datasets = []dataset.Dataset{
		{
			Name: "people", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.people"},
			Staging: []dataset.Staging{{
				Table: "features.profiles", Name: "profiles", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}}, Prefix: "p_",
				Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
			}},
		},
		{Name: "secret", Key: []string{"request_id"}, Training: dataset.Training{Table: "hr.salaries"}},
	}
	return w
}

// limited is the policy by which bob reads what is no secret, and alice everything.
func (p people) limited() *policy.Policy {
	tables := []policy.TableLimits{{Name: "ml.people", Withheld: []string{"note"}}, {Name: "features.profiles"}}
	for i := range tables {
		if p.emails {
			tables[i].Withheld = append(tables[i].Withheld, "email")
		}
		if p.filtered {
			tables[i].Filter = datasettest.Filter("country = 'DE'")
		}
		if p.filtered && p.computed {
			tables[i].Filter = datasettest.Filter("lower(country) = 'de'")
		}
	}
	return &policy.Policy{Rules: []policy.AccessRule{
		{Subjects: []string{"bob"}, Read: []string{"people"}, Inline: []string{"ml.*", "features.*"}, Allow: policy.Actions(), Tables: tables},
		{Subjects: []string{"alice"}, Read: []string{"*"}, Inline: []string{"*"}, Allow: policy.Actions()},
		{Subjects: []string{"carol"}, Read: []string{"secret"}},
	}}
}

// server serves the world by the policy, with caches of plans, kept build sides and shared streams.
func (p people) server(t testing.TB, options Options) (*served, *world) {
	t.Helper()
	w := p.world(t)
	plans, err := loader.NewPlans(1 << 20)
	require.NoError(t, err)
	t.Cleanup(plans.Close)
	l := loader.New(loader.Options{
		Datasets: w.datasets, Catalog: w.World, Scan: w.Scan, Budget: w.budget, Memory: batch.NewAllocator(), Plans: plans, KeepBuildSides: 1 << 20,
	})
	options.Loader, options.Verifier, options.Authenticate = fanout.New(fanout.Options{Window: 1 << 20, Budget: w.budget}).Over(l), l, known
	options.Observer.StreamEnded = func(StreamEnd) {} // more than the kit has room for
	if options.Policy == nil {
		options.Policy = p.limited
	}
	return serve(t, options), w
}

// alice, bob and carol are the contexts of their calls.
func alice(t testing.TB) context.Context { return as(t.Context(), "Bearer a") }
func bob(t testing.TB) context.Context   { return as(t.Context(), "Bearer b") }
func carol(t testing.TB) context.Context { return as(t.Context(), "Bearer d") }

// inlinePeople is the dataset people as a client sends it, with more in its fields.
func inlinePeople(training, staging string) string {
	return fmt.Sprintf(`{"dataset": {"training": {"table": "ml.people"%s}, "key": ["request_id"], "staging": [{"table": "features.profiles", "name": "profiles", "prefix": "p_"%s}]}`,
		training, staging)
}

// withPeople is the dataset people with another entry of its staging table.
func withPeople(entry, more string) string {
	return fmt.Sprintf(`{"dataset": "people", "with": [{"table": "features.profiles", "name": "again", "prefix": "a_", %s}]%s}`, entry, more)
}
