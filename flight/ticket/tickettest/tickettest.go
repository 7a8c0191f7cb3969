// Package tickettest has keys and the content of a ticket for tests.
package tickettest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
)

// Keys returns two keys: a new key that signs, and an older key that only verifies.
func Keys(t testing.TB) *ticket.Keys {
	keys, err := ticket.ParseKeys([]byte("k2 MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\nk1 YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=\n"))
	require.NoError(t, err)
	return keys
}

// Golden returns a content that uses every part of a ticket.
func Golden() ticket.Content {
	pin := dataset.Pin{
		Training: dataset.TablePin{UUID: "9c12d441-03fe-4693-9a96-a0705ddf69c1", Snapshot: 3051729675574597004, Schema: 1},
		Staging:  map[string]dataset.TablePin{"history": {UUID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427", Snapshot: 7, Schema: 0}},
	}
	return ticket.New(dataset.Query{
		Rows:    dataset.Rows{Dataset: "homefeed", Filter: datasettest.Filter("day >= DATE '2026-10-01'"), Order: dataset.Shuffled, Seed: 17, Epoch: 2, Lanes: 8},
		Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}, {Column: "country"}}, Shard: dataset.Shard{Index: 1, Of: 4}, BatchRows: 4096},
	}, &plan.Plan{
		Bound: plan.Bound{Algorithm: 1, Rows: dataset.Rows{Pin: pin}}, Digest: "d1d2d3d4",
		ID: "0123456789abcdef0123456789abcdef", FilesID: "fedcba9876543210fedcba9876543210",
	})
}
