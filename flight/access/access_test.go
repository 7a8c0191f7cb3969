package access

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stream"
)

// shop is a guard of two datasets: alice may read some rows of one without a column, and bob everything.
func shop(log *bytes.Buffer) *Guard {
	rules := &policy.Policy{Rules: []policy.AccessRule{
		{Subjects: []string{"alice"}, Read: []string{"orders"}, Tables: []policy.TableLimits{{Name: "shop.orders", Withheld: []string{"price"}, Filter: datasettest.Filter("id < 100")}}},
		{Subjects: []string{"bob"}, Read: []string{"*"}, Write: []string{"shop.*"}, Allow: policy.Actions()},
	}}
	datasets := []dataset.Dataset{
		{Name: "orders", Key: []string{"id"}, Training: dataset.Training{Table: "shop.orders"}},
		{Name: "people", Key: []string{"id"}, Training: dataset.Training{Table: "shop.people"}},
	}
	return &Guard{
		Policy: func() *policy.Policy { return rules }, Datasets: func() []dataset.Dataset { return datasets },
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func by(subject string) *call.Call { return &call.Call{Caller: identity.Caller{Subject: subject}} }

func queryOf(name string) dataset.Query { return dataset.Query{Rows: dataset.Rows{Dataset: name}} }

// A dataset that a caller may not read is reported as not found, but the audit log has a refusal.
func TestHiddenDatasetsDoNotExist(t *testing.T) {
	g := shop(&bytes.Buffer{})
	alice := by("alice")
	_, hidden := g.Permit(alice, queryOf("people"))
	line, ok := alice.Line("GetFlightInfo", fault.NotFound.String(), 0)
	require.True(t, ok)
	require.Equal(t, audit.Refusal, line.Event)
	alice = by("alice")
	_, none := g.Permit(alice, queryOf("peoplf"))
	_, ok = alice.Line("GetFlightInfo", fault.NotFound.String(), 0)
	require.False(t, ok)
	require.Equal(t, fault.NotFound, fault.KindOf(hidden))
	require.Equal(t, fault.As(none).Remedy, fault.As(hidden).Remedy)
	require.NotContains(t, fault.As(none).Remedy, "people", "no name is proposed that the caller may not read")
	_, err := g.Permit(by("bob"), queryOf("people"))
	require.NoError(t, err)
}

// The check after a change of a table reports the datasets that the caller may read, with the caller's rights.
//
// spec: stage-161
func TestReadersOfACaller(t *testing.T) {
	g := shop(&bytes.Buffer{})
	all := g.Readers(by("bob"))
	require.Len(t, all, 2)
	const secret = "price 12.50"
	found := all[0].Disclosed(t.Context(), fault.New(fault.Corrupt, secret))
	require.ErrorContains(t, found, secret)
	of := g.Readers(by("alice"))
	require.Len(t, of, 1)
	require.Equal(t, "orders", of[0].Dataset.Name)
	require.NotContains(t, of[0].Disclosed(t.Context(), fault.New(fault.Corrupt, secret)).Error(), secret)
	require.Equal(t, []string{"price"}, of[0].Rights.Of("shop.orders").Withheld)
	require.Empty(t, g.Readers(by("carol")))
}

func TestActionsNeedTheirRight(t *testing.T) {
	g := shop(&bytes.Buffer{})
	require.True(t, g.MayCall(by("alice"), policy.Reading))
	require.False(t, g.MayCall(by("alice"), policy.Verify))
	require.True(t, g.MayCall(by("bob"), policy.Verify))
	require.False(t, g.MayCall(by("bob"), ""), "no caller may call an action without a right")
	_, err := g.PermitTo(by("alice"), queryOf("orders"), policy.Explain)
	require.Equal(t, fault.Forbidden, fault.KindOf(err))
	_, err = g.PermitTo(by("bob"), queryOf("orders"), policy.Explain)
	require.NoError(t, err)
	require.NoError(t, g.PermitChanges(by("bob"), []string{"shop.orders", "shop.people"}, policy.Stage))
	require.Equal(t, fault.Forbidden, fault.KindOf(g.PermitChanges(by("bob"), []string{"shop.orders", "ml.x"}, policy.Stage)))
	_, err = g.Promotable(by("alice"), "orders")
	require.Equal(t, fault.Forbidden, fault.KindOf(err))
}

// Failures have no details for a caller that may not read everything, and the log has them.
func TestFailuresTellLimitedCallersNothing(t *testing.T) {
	var log bytes.Buffer
	g := shop(&log)
	limited, err := g.Permit(by("alice"), queryOf("orders"))
	require.NoError(t, err)
	whole, err := g.Permit(by("bob"), queryOf("orders"))
	require.NoError(t, err)
	const secret = "price 12.50 is too long"
	for name, c := range map[string]struct {
		err   error
		shown bool
	}{
		"of storage":                {fault.New(fault.Corrupt, secret), false},
		"of another library":        {errors.New(secret), false},
		"of a field":                {&fault.Error{Kind: fault.Invalid, Message: "m", Faults: []fault.Field{{Field: "columns[1]", Message: secret}}}, true},
		"of a field with a count":   {&fault.Error{Kind: fault.Invalid, Message: secret, Faults: []fault.Field{{Field: "cursor", Message: secret}}}, false},
		"of a field and a table":    {&fault.Error{Kind: fault.Invalid, Message: secret, Table: "t", Faults: []fault.Field{{Field: "filter", Message: secret}}}, false},
		"of a server that ends":     {failure.ByServer(fault.New(fault.Unavailable, secret)), true},
		"of a client that has gone": {context.Canceled, true},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			require.Equal(t, c.err, g.Disclosed(t.Context(), whole, c.err))
			require.Empty(t, log.String())
			got := g.Disclosed(t.Context(), limited, c.err)
			if c.shown {
				require.Equal(t, c.err, got)
				return
			}
			require.NotContains(t, failure.DetailsOf(fault.As(got)).Message, secret)
			require.Equal(t, fault.KindOf(c.err), fault.KindOf(got))
			require.Contains(t, log.String(), secret)
		})
	}
	require.NoError(t, g.Disclosed(t.Context(), limited, nil))
}

func TestDescriptionsOfLimitedCallersAreShort(t *testing.T) {
	g := shop(&bytes.Buffer{})
	limited, err := g.Permit(by("alice"), queryOf("orders"))
	require.NoError(t, err)
	whole, err := g.Permit(by("bob"), queryOf("orders"))
	require.NoError(t, err)
	d := g.Datasets()[0]
	require.Equal(t, "{}", string(limited.DatasetText(d)))
	require.Equal(t, d.Canonical(), whole.DatasetText(d))
	report := stream.Report{Rows: 3, Staging: map[string]stream.StagingReport{"s": {BytesRead: 5}}}
	require.Equal(t, report, whole.RedactedReport(report))
	require.Zero(t, limited.RedactedReport(report).Staging["s"].BytesRead)
	require.EqualValues(t, 5, report.Staging["s"].BytesRead)
	bySplits := dataset.Query{Reading: dataset.Reading{Endpoints: dataset.EndpointsSplits}}
	require.NoError(t, whole.CheckEndpoints(bySplits))
	require.Equal(t, fault.Invalid, fault.KindOf(limited.CheckEndpoints(bySplits)))
}

// The digest of a ticket is that of the dataset as its caller reads it: other rights make the ticket expire.
func TestTicketsOfOtherRightsAreExpired(t *testing.T) {
	g := shop(&bytes.Buffer{})
	limited, err := g.Permit(by("alice"), queryOf("orders"))
	require.NoError(t, err)
	of := ticket.Content{Digest: limited.Digest}
	_, err = g.PermitTicket(by("alice"), queryOf("orders"), of)
	require.NoError(t, err)
	_, err = g.PermitTicket(by("bob"), queryOf("orders"), of)
	require.Equal(t, fault.Expired, fault.KindOf(err))
	require.NoError(t, g.CheckUnchanged(limited))
	limited.Digest = "of another configuration"
	require.ErrorIs(t, g.CheckUnchanged(limited), ErrChangedMeanwhile)
}
