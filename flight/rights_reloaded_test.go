package flight

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/policy"
)

// plainPeople is the dataset people without its entry.
func plainPeople(name string) dataset.Dataset {
	return dataset.Dataset{Name: name, Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.people"}}
}

// withLoader returns a loader of datasets over the world's tables, and options of a server with a policy.
func withLoader(w *world, datasets []dataset.Dataset, rules ...policy.AccessRule) (*loader.Loader, Options) {
	l := loader.New(loader.Options{Datasets: datasets, Catalog: w.World, Scan: w.Scan, Budget: w.budget, Memory: batch.NewAllocator()})
	return l, Options{Loader: l, Verifier: l, Authenticate: known, Policy: func() *policy.Policy { return &policy.Policy{Rules: rules} }}
}

// Explanations of a dataset do not tell of streams of another one, whose plan has the same id: left entries do not count in it.
//
// spec: access-12
func TestExplanationsTellOfTheirDatasetAlone(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	l, o := withLoader(w, append(w.datasets, plainPeople("plain")),
		policy.AccessRule{Subjects: []string{"bob"}, Read: []string{"plain"}, Allow: policy.Actions()},
		policy.AccessRule{Subjects: []string{"alice"}, Read: []string{"*"}, Allow: policy.Actions()})
	sharer := fanout.New(fanout.Options{Window: 1 << 20, Budget: w.budget})
	o.Loader, o.Sharing = sharer.Over(l), sharer.Explain
	s := serve(t, o)
	_ = s.answer(alice(t), t, `{"dataset": "people"}`)
	<-s.ended
	text, err := s.act(alice(t), "explain", []byte(`{"dataset": "people"}`))
	require.NoError(t, err)
	require.Contains(t, string(text), "last stream of this plan")
	text, err = s.act(bob(t), "explain", []byte(`{"dataset": "plain"}`))
	require.NoError(t, err)
	require.NotContains(t, string(text), "profiles")
}

// Explanations do not tell of streams of clients with other rows, although their plans have the same id.
//
// spec: access-16
func TestExplanationsTellOfTheirRowsAlone(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	_, o := withLoader(w, w.datasets,
		policy.AccessRule{Subjects: []string{"bob"}, Read: []string{"people"}, Tables: []policy.TableLimits{{Name: "features.profiles", Filter: datasettest.Filter("country = 'DE'")}}},
		policy.AccessRule{Subjects: []string{"alice"}, Read: []string{"*"}, Allow: policy.Actions()})
	s := serve(t, o)
	_ = s.answer(alice(t), t, `{"dataset": "people"}`)
	<-s.ended
	before, err := s.act(alice(t), "explain", []byte(`{"dataset": "people"}`))
	require.NoError(t, err)
	_ = s.answer(bob(t), t, `{"dataset": "people"}`)
	<-s.ended
	after, err := s.act(alice(t), "explain", []byte(`{"dataset": "people"}`))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// reloadingLoader reloads its datasets after rights were checked, and before a query is planned.
type reloadingLoader struct {
	Loader
	reload func()
}

func (r reloadingLoader) PlanFor(ctx context.Context, request loader.PlanRequest) (loader.Planned, error) {
	r.reload()
	return r.Loader.PlanFor(ctx, request)
}

// A dataset that gets a table with limits, after the rights to it were checked and before it is planned or verified, is refused:
// neither an answer nor an error is that of the changed dataset with the rights to the one before.
//
// spec: access-17, access-18
func TestDatasetsThatChangeDuringACallAreRefused(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	whole := w.datasets[0]
	l, o := withLoader(w, w.datasets, policy.AccessRule{
		Subjects: []string{"bob"}, Read: []string{"people"}, Inline: []string{"*"}, Allow: policy.Actions(),
		Tables: []policy.TableLimits{{Name: "features.profiles", Withheld: []string{"email"}}},
	})
	var reloads atomic.Int32
	reload := func() { // the dataset is another one at each try
		changed := whole
		changed.Staging = slices.Clone(whole.Staging)
		changed.Staging[0].MinMatch = 1 / float64(reloads.Add(1)+1)
		l.SetDatasets([]dataset.Dataset{changed})
	}
	o.Loader = reloadingLoader{l, reload}
	o.Verifier = verifying(func(ctx context.Context, request loader.PlanRequest, _ func(loader.VerifyProgress)) (*loader.Verification, error) {
		reload()
		return l.Verify(ctx, request, nil)
	})
	s := serve(t, o)
	before := func() { l.SetDatasets([]dataset.Dataset{plainPeople("people")}) }
	for _, query := range []string{
		`{"dataset": "people"}`, `{"dataset": "people", "endpoints": "splits"}`,
		`{"dataset": "people", "columns": ["no_column"]}`,
		`{"dataset": "people", "with": [{"table": "ml.people", "name": "x", "prefix": "x_", "columns": ["no_column"]}]}`,
	} {
		before()
		_, err := s.GetFlightInfo(bob(t), flighttest.Command(query))
		require.Error(t, err, query)
		require.NotContains(t, err.Error(), "no_column", query)
		require.NotContains(t, err.Error(), "profiles", query)
	}
	for action, code := range map[string]codes.Code{"explain": codes.PermissionDenied, "verify": codes.Unavailable, "manifest": codes.Unavailable} {
		before()
		_, err := s.act(bob(t), action, []byte(`{"dataset": "people"}`))
		require.Error(t, err, action)
		require.NotContains(t, err.Error(), "profiles", action)
		require.Equal(t, code, status.Code(err), action)
	}
}

// A call during which its dataset is reloaded is made again, with the rights to the new dataset.
//
// spec: access-26
func TestQueriesArePlannedAgainAfterAReload(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	whole := w.datasets[0]
	l, o := withLoader(w, w.datasets, policy.AccessRule{
		Subjects: []string{"bob"}, Read: []string{"people"}, Tables: []policy.TableLimits{{Name: "features.profiles", Withheld: []string{"email"}}},
	})
	plans := 0
	o.Loader = reloadingLoader{l, func() {
		plans++
		l.SetDatasets([]dataset.Dataset{whole})
	}}
	s := serve(t, o)
	l.SetDatasets([]dataset.Dataset{plainPeople("people")})
	found, err := s.GetFlightInfo(bob(t), flighttest.Command(`{"dataset": "people"}`))
	require.NoError(t, err)
	require.Equal(t, 2, plans)
	schema, err := arrowflight.DeserializeSchema(found.GetSchema(), memory.DefaultAllocator)
	require.NoError(t, err)
	names := []string{}
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	require.Contains(t, names, "p_country")
	require.NotContains(t, names, "p_email")
}

// While a check of tables waits for a slot, the dataset gets a table of which the client may not read all.
//
// spec: access-18
func TestRightsAreCheckedAfterWaiting(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	whole := w.datasets[0]
	l, o := withLoader(w, []dataset.Dataset{plainPeople("people")},
		policy.AccessRule{Subjects: []string{"bob"}, Read: []string{"people"}, Allow: policy.Actions(), Tables: []policy.TableLimits{{Name: "features.profiles", Withheld: []string{"email"}}}},
		policy.AccessRule{Subjects: []string{"alice"}, Read: []string{"*"}, Allow: policy.Actions()})
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	var verified atomic.Int32
	o.Verifier = verifying(func(ctx context.Context, request loader.PlanRequest, _ func(loader.VerifyProgress)) (*loader.Verification, error) {
		verified.Add(1)
		begun <- struct{}{}
		<-goOn
		return l.Verify(ctx, request, nil)
	})
	o.MaxStreams = 1
	s := serve(t, o)
	go func() { _, _ = s.act(alice(t), "verify", []byte(`{"dataset": "people"}`)) }()
	<-begun
	refused := make(chan error)
	go func() {
		_, err := s.act(bob(t), "verify", []byte(`{"dataset": "people"}`))
		refused <- err
	}()
	l.SetDatasets([]dataset.Dataset{whole})
	close(goOn)
	require.Equal(t, codes.PermissionDenied, status.Code(<-refused))
	require.Equal(t, int32(1), verified.Load())
}

// What a policy refuses has a line that names what was asked for, also if the dataset does not exist for the client.
//
// spec: access-21
func TestRefusalsOfThePolicyHaveALine(t *testing.T) {
	t.Parallel()
	w := people{emails: true, foreign: true}.world(t)
	_, o := withLoader(w, append(w.datasets, plainPeople("secret")),
		policy.AccessRule{Subjects: []string{"bob"}, Read: []string{"people"}, Inline: []string{"ml.*"}})
	o, lines := auditing(t, o)
	s := serve(t, o)
	planning := func(query string) func() error {
		return func() error { _, err := s.GetFlightInfo(bob(t), flighttest.Command(query)); return err }
	}
	action := func(name, query string) func() error {
		return func() error { _, err := s.act(bob(t), name, []byte(query)); return err }
	}
	for name, c := range map[string]struct {
		call    func() error
		dataset string
		table   string // that the client named
		end     string
	}{
		"explain": {action("explain", `{"dataset": "people"}`), "people", "", "forbidden"},
		"verify":  {action("verify", `{"dataset": "people"}`), "people", "", "forbidden"},
		"hidden":  {planning(`{"dataset": "secret"}`), "secret", "", "not found"},
		"with":    {planning(`{"dataset": "people", "with": [{"table": "hr.salaries"}]}`), "people", "hr.salaries", "forbidden"},
		"inline":  {planning(`{"dataset": {"training": {"table": "hr.salaries"}}}`), "", "hr.salaries", "forbidden"},
	} {
		require.Error(t, c.call(), name)
		found := lines.next(t)
		require.Len(t, found, 1, name)
		require.Equal(t, audit.Refusal, found[0].Event, name)
		require.Equal(t, c.dataset, found[0].Dataset, name)
		require.Equal(t, c.end, found[0].End, name)
		require.Equal(t, c.table != "", len(found[0].Tables) == 1 && found[0].Tables[0].Table == c.table, "%s: %v", name, found[0].Tables)
	}
	_, err := s.GetFlightInfo(bob(t), flighttest.Command(`{"dataset": "nothing"}`))
	require.Error(t, err)
	require.Empty(t, lines.all(t), "no client may see such a dataset")
}
