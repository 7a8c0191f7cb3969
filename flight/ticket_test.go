package flight

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
)

// golden is a content that uses every part of a ticket.
func golden() content {
	pin := dataset.Pin{
		Training: dataset.TablePin{UUID: "9c12d441-03fe-4693-9a96-a0705ddf69c1", Snapshot: 3051729675574597004, Schema: 1},
		Staging:  map[string]dataset.TablePin{"history": {UUID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427", Snapshot: 7, Schema: 0}},
	}
	return newContent(dataset.Query{
		Rows:    dataset.Rows{Dataset: "homefeed", Filter: dataset.MustFilter("day >= DATE '2026-10-01'"), Order: dataset.Shuffled, Seed: 17, Epoch: 2, Lanes: 8},
		Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}, {Column: "country"}}, Shard: dataset.Shard{Index: 1, Of: 4}, BatchRows: 4096},
	}, &plan.Plan{
		Bound: plan.Bound{Rows: dataset.Rows{Pin: pin}}, Digest: "d1d2d3d4",
		ID: "0123456789abcdef0123456789abcdef", FilesID: "fedcba9876543210fedcba9876543210",
	})
}

// TestGoldenTicket compares the bytes of a ticket: replicas of different builds must accept
// each other's tickets.
//
// spec: ticket-1
func TestGoldenTicket(t *testing.T) {
	const file = "testdata/ticket.hex"
	keys := testKeys(t)
	sealed, err := keys.seal(golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	if flag.Lookup("rewrite").Value.String() == "true" { // internal/scenario's
		var text strings.Builder
		for line := range slices.Chunk(sealed, 32) {
			fmt.Fprintln(&text, hex.EncodeToString(line))
		}
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	require.NoError(t, err)
	require.Equal(t, want, sealed, "run with -rewrite and review the diff")
	opened, err := keys.open(want, noon())
	require.NoError(t, err)
	require.Equal(t, golden(), opened)
	query, err := decode.Query(opened.Query)
	require.NoError(t, err)
	require.Equal(t, "homefeed", query.Dataset)
	require.Equal(t, dataset.Shard{Index: 1, Of: 4}, query.Shard)
}

// TestInvalidTicketsAreRefused changes tickets, keys and time.
//
// spec: ticket-3, ticket-4, ticket-5
func TestInvalidTicketsAreRefused(t *testing.T) {
	keys := testKeys(t)
	expires := noon().Add(time.Hour)
	good, err := keys.seal(golden(), expires)
	require.NoError(t, err)
	foreign, err := RandomKeys(bytes.NewReader(make([]byte, 64)))
	require.NoError(t, err)
	imitation := &Keys{sign: "k2", keys: map[string][]byte{"k2": []byte("another key under the same name ...")}}
	forge := func(k *Keys) []byte {
		sealed, err := k.seal(golden(), expires)
		require.NoError(t, err)
		return sealed
	}
	at := func(i int, b byte) []byte {
		out := bytes.Clone(good)
		out[i] = b
		return out
	}
	for name, c := range map[string]struct {
		ticket []byte
		now    time.Time
		kind   fault.Kind
		words  string
	}{
		"empty":              {nil, noon(), fault.Invalid, "not the bytes of a ticket"},
		"a name":             {[]byte("homefeed"), noon(), fault.Invalid, "not the bytes of a ticket"},
		"the magic alone":    {[]byte("pst"), noon(), fault.Invalid, "not the bytes of a ticket"},
		"cut off":            {good[:20], noon(), fault.Invalid, "cut off"},
		"a byte less":        {good[:len(good)-1], noon(), fault.Invalid, "signature"},
		"a byte more":        {append(bytes.Clone(good), 0), noon(), fault.Invalid, "signature"},
		"too long":           {append(bytes.Clone(good), make([]byte, maxTicket)...), noon(), fault.Invalid, "not the bytes of a ticket"},
		"changed":            {at(40, good[40]^1), noon(), fault.Invalid, "signature"},
		"a longer life":      {at(7, 0x7f), noon(), fault.Invalid, "signature"},
		"another form":       {at(3, 9), noon(), fault.Expired, "form 9"},
		"an unknown key":     {forge(foreign), noon(), fault.Expired, "does not have the key"},
		"a key of that name": {forge(imitation), noon(), fault.Invalid, "signature"},
		"its last second":    {good, expires, fault.Expired, "expired at 2026-10-01T13:00:00Z"},
		"long after":         {good, expires.AddDate(1, 0, 0), fault.Expired, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keys.open(c.ticket, c.now)
			require.Error(t, err)
			require.Equal(t, c.kind, fault.KindOf(err), err)
			require.Contains(t, err.Error(), c.words)
			require.NotEmpty(t, fault.As(err).Remedy)
		})
	}
	_, err = keys.open(good, expires.Add(-time.Second))
	require.NoError(t, err)
}

// TestEveryByteCounts flips each bit of a ticket.
//
// spec: ticket-3
func TestEveryByteCounts(t *testing.T) {
	keys := testKeys(t)
	good, err := keys.seal(golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			_, err := keys.open(bad, noon())
			require.Error(t, err, "bit %d of byte %d", bit, i)
		}
	}
}

// TestRotation checks that tickets of an older key are accepted as long as the key file has
// the key.
//
// spec: ticket-6
func TestRotation(t *testing.T) {
	const a, b = "a MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", "b YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=\n"
	parse := func(text string) *Keys {
		keys, err := ParseKeys([]byte(text))
		require.NoError(t, err)
		return keys
	}
	before, during, after, gone := parse(a), parse(a+b), parse("# new key first\n\n"+b+a), parse(b)
	for _, signer := range []*Keys{before, during} {
		sealed, err := signer.seal(golden(), noon().Add(time.Hour))
		require.NoError(t, err)
		for _, reader := range []*Keys{before, during, after} {
			_, err := reader.open(sealed, noon())
			require.NoError(t, err)
		}
		_, err = gone.open(sealed, noon())
		require.Equal(t, fault.Expired, fault.KindOf(err))
	}
	sealed, err := after.seal(golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	_, err = during.open(sealed, noon())
	require.NoError(t, err)
}

func TestKeyFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":     {"# no keys\n", "there is no key"},
		"one word":    {"k1\n", "line 1: want an id, a space and a key"},
		"not base64":  {"k1 %%%%\n", "line 1: the key is not base64"},
		"short":       {"k1 c2hvcnQ=\n", "line 1: the key has 5 bytes, fewer than 32"},
		"twice":       {"k MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\nk MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", `line 2: the id "k" stands twice`},
		"a long id":   {strings.Repeat("k", 33) + " MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "line 1: the id is longer than 32 bytes"},
		"two at once": {"k1\n\nk2 c2hvcnQ=\n", "line 1: want an id, a space and a key in base64; line 3: the key has 5 bytes"},
		"endless":     {strings.Repeat("x", 1<<17), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKeys([]byte(c.text))
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "c2hvcnQ")
		})
	}
	_, err := RandomKeys(bytes.NewReader(nil))
	require.Equal(t, fault.Internal, fault.KindOf(err))
}

// TestTooLargeTicketsNameTheField checks that the error names the field that must shrink.
//
// spec: ticket-7
func TestTooLargeTicketsNameTheField(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := golden()
	var names []dataset.Column
	for range 7000 {
		names = append(names, dataset.Column{Name: strconv.FormatUint(random.Uint64(), 36)})
	}
	c.Query = dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{Columns: names}}.Canonical()
	_, err := testKeys(t).seal(c, noon())
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, "columns", fault.As(err).Faults[0].Field)
	require.ErrorContains(t, err, "more than 65536")
	require.NotEmpty(t, fault.As(err).Remedy)

	// Those of one answer are bounded together, so that many shards of a wide query do
	// not make an answer that no client takes.
	c.Query = dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{Columns: names[:5000]}}.Canonical()
	seal, sealed := testKeys(t).sealerOf(4*maxTicket, maxContents), 0
	for err = nil; err == nil; sealed++ {
		var ticket []byte
		ticket, err = seal(c, noon())
		require.LessOrEqual(t, len(ticket), maxTicket)
	}
	require.Greater(t, sealed, 4)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "of all endpoints")
	require.NotEmpty(t, fault.As(err).Remedy)
}

// TestTicketsOnlyHaveTheirOwnLanes checks that a ticket only has the positions of its own
// lanes, however many lanes there are.
//
// spec: ticket-8
func TestTicketsOnlyHaveTheirOwnLanes(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	var cursors []json.RawMessage
	for _, g := range s.readAll(t, `{"dataset": "homefeed", "lanes": 32, "shard": {"of": 32}, "batch_rows": 2}`) {
		cursors = append(cursors, g.cursors[0])
	}
	list, err := json.Marshal(cursors)
	require.NoError(t, err)
	answer, err := s.GetFlightInfo(context.Background(), command(fmt.Sprintf(`{"dataset": "homefeed", "shard": {"of": 16}, "cursor": %s}`, list)))
	require.NoError(t, err)
	require.Len(t, answer.GetEndpoint(), 16)
	for _, e := range answer.GetEndpoint() {
		require.Less(t, len(e.GetTicket().GetTicket()), 700)
	}
}

// TestTicketsOfChangedDatasets checks that a ticket is refused if its dataset was changed,
// or if planning again results in a different plan.
//
// spec: ticket-9, ticket-10
func TestTicketsOfChangedDatasets(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	w.datasets = slices.Clone(w.datasets)
	w.datasets[0].Staging = slices.Clone(w.datasets[0].Staging)
	w.datasets[0].Staging[0].Join = rule.Inner
	changed := serve(t, Options{Loader: w.loader()})
	_, code, d := changed.getFailure(t, ticket)
	require.Equal(t, codes.FailedPrecondition, code)
	require.Equal(t, "expired", d.Kind)
	require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed`)
	require.Contains(t, d.Remedy, "GetFlightInfo")

	c, err := testKeys(t).open(ticket.GetTicket(), noon())
	require.NoError(t, err)
	redeemed := func(c content) (codes.Code, details) {
		sealed, err := testKeys(t).seal(c, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, d := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		return code, d
	}
	other := c
	other.Plan = "ffff"
	code, d = redeemed(other)
	require.Equal(t, codes.Internal, code)
	require.Contains(t, d.Message, "it was ffff")
	other = c
	other.Files = "eeee"
	code, d = redeemed(other)
	require.Equal(t, codes.Internal, code, "the same rows of other staging files")
	require.Contains(t, d.Message, "with files eeee")
}

// TestTicketsThatWaitWhileTheirDatasetChanges checks that a ticket is expired if its dataset changes between the first look at
// it and its plan, and that a ticket with added entries is redeemed while its dataset is the same.
//
// spec: ticket-16
func TestTicketsThatWaitWhileTheirDatasetChanges(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	var change func(d *dataset.Dataset)
	s := serve(t, Options{Loader: altered{Loader: l, plan: func(q dataset.Query) (loader.Planned, error) {
		if change != nil {
			datasets := slices.Clone(w.datasets)
			datasets[0].Staging = slices.Clone(datasets[0].Staging)
			change(&datasets[0])
			l.SetDatasets(datasets)
		}
		return l.Plan(t.Context(), q)
	}}})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	more := s.ticket(t, fmt.Sprintf(`{"dataset": "homefeed", "with": [{"table": %q, "key": {"request_id": "req"}, "name": "again", "prefix": "again_"}]}`, w.datasets[0].Staging[0].Table))
	for _, one := range []*arrowflight.Ticket{ticket, more} {
		g, err := read(t.Context(), s.Client, one)
		require.NoError(t, err)
		require.Len(t, g.rows, trainingRows)
	}
	for _, change = range []func(*dataset.Dataset){
		func(d *dataset.Dataset) { d.Staging[0].MinMatch = 0.01 },
		func(d *dataset.Dataset) { d.Staging = nil }, // which the ticket pins
		promoteEntry,
	} {
		for _, one := range []*arrowflight.Ticket{ticket, more} {
			l.SetDatasets(w.datasets)
			_, code, d := s.getFailure(t, one)
			require.Equal(t, codes.FailedPrecondition, code)
			require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed`)
		}
	}
}

// promoteEntry adds an entry to a dataset with the name, and not the fields, of the one that queries with "again" add.
func promoteEntry(d *dataset.Dataset) {
	again := d.Staging[0]
	again.Name, again.Prefix = "again", "more_"
	d.Staging = append(d.Staging, again)
}

// TestTicketsWithEntriesThatTheDatasetHasNow checks that a ticket is expired, and not invalid, if an entry that its query adds can
// no longer be added, since the dataset now has one of that name.
//
// spec: ticket-9, ticket-16
func TestTicketsWithEntriesThatTheDatasetHasNow(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	s := serve(t, Options{Loader: l})
	e := s.endpointFor(t.Context(), t, fmt.Sprintf(`{"dataset": "homefeed", "with": [{"table": %q, "key": {"request_id": "req"}, "name": "again", "prefix": "again_"}]}`, w.datasets[0].Staging[0].Table))
	datasets := slices.Clone(w.datasets)
	datasets[0].Staging = slices.Clone(datasets[0].Staging)
	promoteEntry(&datasets[0])
	l.SetDatasets(datasets)
	d := s.refusedTo(t.Context(), t, e, codes.FailedPrecondition)
	require.Contains(t, d.Message, `the configuration of dataset "homefeed" has changed since the ticket was made`)
	require.Contains(t, d.Message, `already has an entry "again"`)
	l.SetDatasets(w.datasets)
	_, err := s.renewFor(t.Context(), t, e)
	require.NoError(t, err)
}

// TestTicketsOfOtherAlgorithms checks that a ticket of another algorithm is expired, and
// never returns other rows.
//
// spec: ticket-9
func TestTicketsOfOtherAlgorithms(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	query := dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{BatchRows: 100, Shard: dataset.Shard{Of: 1}}}
	p, err := w.loader().Plan(t.Context(), query)
	require.NoError(t, err)
	for _, algorithm := range []int{-1, 0, plan.Algorithm + 1, 99} {
		c := newContent(query.Defaults(), p.Plan)
		c.Algorithm = algorithm
		sealed, err := testKeys(t).seal(c, noon().Add(time.Hour))
		require.NoError(t, err)
		_, code, d := s.getFailure(t, &arrowflight.Ticket{Ticket: sealed})
		require.Equal(t, codes.FailedPrecondition, code)
		require.Equal(t, "expired", d.Kind)
		require.Contains(t, d.Message, fmt.Sprintf("algorithm %d, this one plans by %d", algorithm, plan.Algorithm))
		require.Equal(t, planAgain, d.Remedy)
	}
}

// TestEveryFieldOfATicketRoundTrips checks that a ticket encodes each field of a query, of
// an inline dataset and of the ticket itself. It finds fields by reflection, so a forgotten
// field fails by name.
func TestEveryFieldOfATicketRoundTrips(t *testing.T) {
	s := New(Options{Keys: keysOf(t), Clock: noon, Loader: newWorld(t).loader()})
	pin := dataset.Pin{Training: dataset.TablePin{UUID: "u", Snapshot: 7}, Staging: map[string]dataset.TablePin{}}
	datasettest.EachField(t, func(t *testing.T, what string, q dataset.Query) {
		t.Helper()
		want := q.Defaults()
		planned := &plan.Plan{Bound: plan.Bound{Rows: dataset.Rows{Pin: pin}}}
		if !want.Pin.IsZero() && want.Pin.Whole() {
			planned.Rows.Pin = want.Pin
		}
		want.Pin = planned.Rows.Pin
		sealed, err := s.options.Keys().seal(newContent(q, planned), noon().Add(time.Hour))
		require.NoError(t, err, what)
		opened, err := s.tickets.open(&call{}, sealed)
		require.NoError(t, err, what)
		got, err := opened.asked()
		require.NoError(t, err, what)
		datasettest.Equal(t, want, got, what)
	})
	var full content
	datasettest.Fill(t, &full)
	sealed, err := s.options.Keys().seal(full, noon().Add(time.Hour))
	require.NoError(t, err)
	opened, err := s.options.Keys().open(sealed, noon())
	require.NoError(t, err)
	datasettest.Equal(t, full, opened, "a ticket")
}

// TestTicketsIgnoreLaterCommits checks that commits after a ticket was made do not change
// what it returns.
//
// spec: ticket-2
func TestTicketsIgnoreLaterCommits(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	before, err := read(context.Background(), s.Client, ticket)
	require.NoError(t, err)
	w.add(t, "ml.impressions", []string{"r1 5000 1", "r2 5001 2"})
	w.add(t, "features.history", []string{"r95 c9 [1]"})
	now, err := s.GetFlightInfo(context.Background(), command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
	require.EqualValues(t, trainingRows+2, now.GetTotalRecords())
	for range 2 {
		after, err := read(context.Background(), s.Client, ticket)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

// FuzzTicket checks that only signed bytes are accepted as a ticket.
//
// spec: ticket-3
func FuzzTicket(f *testing.F) {
	keys := testKeys(f)
	good, err := keys.seal(golden(), noon().Add(time.Hour))
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:50])
	f.Add([]byte("pst\x01\x02k2"))
	f.Add([]byte("pst\x01\x00"))
	f.Add([]byte("pst\x02\xff"))
	f.Fuzz(func(t *testing.T, ticket []byte) {
		_, err := keys.open(ticket, noon())
		if bytes.Equal(ticket, good) {
			require.NoError(t, err)
			return
		}
		require.Error(t, err)
		require.Contains(t, []fault.Kind{fault.Invalid, fault.Expired}, fault.KindOf(err))
		if len(ticket) > 0 {
			changed := bytes.Clone(good)
			for i, b := range ticket {
				changed[i%len(changed)] ^= b
			}
			if !bytes.Equal(changed, good) {
				_, err := keys.open(changed, noon())
				require.Error(t, err)
			}
		}
	})
}

// renewedFor opens a ticket for the subject of a call, and renews it.
func renewedFor(of *call, s *Server, ticket []byte) ([]byte, time.Time, error) {
	c, err := s.tickets.open(of, ticket)
	if err != nil {
		return nil, time.Time{}, err
	}
	return s.tickets.renewed(c, expiryOf(ticket))
}

// spec: ticket-11
func TestRenewalEnds(t *testing.T) {
	now := noon()
	s := New(Options{Keys: keysOf(t), Clock: func() time.Time { return now }, Lifetime: time.Hour, Renewal: 150 * time.Minute})
	first, err := s.options.Keys().seal(golden(), noon().Add(time.Hour))
	require.NoError(t, err)
	same, _, err := renewedFor(&call{}, s, first)
	require.NoError(t, err)
	require.Equal(t, first, same, "no time has passed")

	ticket := first
	for _, c := range []struct{ at, until int }{{50, 110}, {100, 160}, {150, 210}} { // minutes
		now = noon().Add(time.Duration(c.at) * time.Minute)
		renewed, expires, err := renewedFor(&call{}, s, ticket)
		require.NoError(t, err)
		require.Equal(t, noon().Add(time.Duration(c.until)*time.Minute), expires.UTC())
		opened, err := s.options.Keys().open(renewed, expires.Add(-time.Second))
		require.NoError(t, err)
		opened.First = 0
		require.Equal(t, golden(), opened, "the content is the same")
		ticket = renewed
	}
	now = noon().Add(200 * time.Minute)
	_, _, err = renewedFor(&call{}, s, ticket)
	require.ErrorContains(t, err, "cannot be renewed any more: it was first good until 2026-10-01T13:00:00Z")
	require.Equal(t, fault.Expired, fault.KindOf(err))
}
