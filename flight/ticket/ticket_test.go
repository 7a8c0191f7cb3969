package ticket_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/fault"
	_ "github.com/penstock/penstock/internal/scenario" // defines -rewrite
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// maxTicket is the most bytes of a ticket.
const maxTicket = 64 << 10

// noon is the time of the tests.
var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// TestGoldenTicket compares the bytes of a ticket: replicas of different builds must accept
// each other's tickets.
//
// spec: ticket-1
func TestGoldenTicket(t *testing.T) {
	const file = "testdata/ticket.hex"
	keys := tickettest.Keys(t)
	sealed, err := keys.Seal(tickettest.Golden(), noon.Add(time.Hour))
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
	opened, err := keys.Open(want, noon)
	require.NoError(t, err)
	require.Equal(t, tickettest.Golden(), opened)
	query, err := decode.Query(opened.Query)
	require.NoError(t, err)
	require.Equal(t, "homefeed", query.Dataset)
	require.Equal(t, dataset.Shard{Index: 1, Of: 4}, query.Shard)
}

// TestInvalidTicketsAreRefused changes tickets, keys and time.
//
// spec: ticket-3, ticket-4, ticket-5
func TestInvalidTicketsAreRefused(t *testing.T) {
	keys := tickettest.Keys(t)
	expires := noon.Add(time.Hour)
	good, err := keys.Seal(tickettest.Golden(), expires)
	require.NoError(t, err)
	foreign, err := ticket.RandomKeys(bytes.NewReader(make([]byte, 64)))
	require.NoError(t, err)
	imitation, err := ticket.ParseKeys([]byte("k2 " + base64.StdEncoding.EncodeToString([]byte("another key under the same name ..."))))
	require.NoError(t, err)
	forge := func(k *ticket.Keys) []byte {
		sealed, err := k.Seal(tickettest.Golden(), expires)
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
		"empty":              {nil, noon, fault.Invalid, "not the bytes of a ticket"},
		"a name":             {[]byte("homefeed"), noon, fault.Invalid, "not the bytes of a ticket"},
		"the magic alone":    {[]byte("pst"), noon, fault.Invalid, "not the bytes of a ticket"},
		"cut off":            {good[:20], noon, fault.Invalid, "cut off"},
		"a byte less":        {good[:len(good)-1], noon, fault.Invalid, "signature"},
		"a byte more":        {append(bytes.Clone(good), 0), noon, fault.Invalid, "signature"},
		"too long":           {append(bytes.Clone(good), make([]byte, maxTicket)...), noon, fault.Invalid, "not the bytes of a ticket"},
		"changed":            {at(40, good[40]^1), noon, fault.Invalid, "signature"},
		"a longer life":      {at(7, 0x7f), noon, fault.Invalid, "signature"},
		"another form":       {at(3, 9), noon, fault.Expired, "form 9"},
		"an unknown key":     {forge(foreign), noon, fault.Expired, "does not have the key"},
		"a key of that name": {forge(imitation), noon, fault.Invalid, "signature"},
		"its last second":    {good, expires, fault.Expired, "expired at 2026-10-01T13:00:00Z"},
		"long after":         {good, expires.AddDate(1, 0, 0), fault.Expired, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keys.Open(c.ticket, c.now)
			require.Error(t, err)
			require.Equal(t, c.kind, fault.KindOf(err), err)
			require.Contains(t, err.Error(), c.words)
			require.NotEmpty(t, fault.As(err).Remedy)
		})
	}
	_, err = keys.Open(good, expires.Add(-time.Second))
	require.NoError(t, err)
}

// TestEveryByteCounts flips each bit of a ticket.
//
// spec: ticket-3
func TestEveryByteCounts(t *testing.T) {
	keys := tickettest.Keys(t)
	good, err := keys.Seal(tickettest.Golden(), noon.Add(time.Hour))
	require.NoError(t, err)
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			_, err := keys.Open(bad, noon)
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
	parse := func(text string) *ticket.Keys {
		keys, err := ticket.ParseKeys([]byte(text))
		require.NoError(t, err)
		return keys
	}
	before, during, after, gone := parse(a), parse(a+b), parse("# new key first\n\n"+b+a), parse(b)
	for _, signer := range []*ticket.Keys{before, during} {
		sealed, err := signer.Seal(tickettest.Golden(), noon.Add(time.Hour))
		require.NoError(t, err)
		for _, reader := range []*ticket.Keys{before, during, after} {
			_, err := reader.Open(sealed, noon)
			require.NoError(t, err)
		}
		_, err = gone.Open(sealed, noon)
		require.Equal(t, fault.Expired, fault.KindOf(err))
	}
	sealed, err := after.Seal(tickettest.Golden(), noon.Add(time.Hour))
	require.NoError(t, err)
	_, err = during.Open(sealed, noon)
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
			_, err := ticket.ParseKeys([]byte(c.text))
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "c2hvcnQ")
		})
	}
	_, err := ticket.RandomKeys(bytes.NewReader(nil))
	require.Equal(t, fault.Internal, fault.KindOf(err))
}

// TestTooLargeTicketsNameTheField checks that the error names the field that must shrink.
//
// spec: ticket-7
func TestTooLargeTicketsNameTheField(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := tickettest.Golden()
	var names []dataset.Column
	for range 7000 {
		names = append(names, dataset.Column{Name: strconv.FormatUint(random.Uint64(), 36)})
	}
	c.Query = dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{Columns: names}}.Canonical()
	_, err := tickettest.Keys(t).Seal(c, noon)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, "columns", fault.As(err).Faults[0].Field)
	require.ErrorContains(t, err, "more than 65536")
	require.NotEmpty(t, fault.As(err).Remedy)

	// Those of one answer are bounded together, so that many shards of a wide query do
	// not make an answer that no client takes.
	c.Query = dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}, Reading: dataset.Reading{Columns: names[:5000]}}.Canonical()
	seal, sealed := tickettest.Keys(t).Sealer(4*maxTicket, 128<<20), 0
	for err = nil; err == nil; sealed++ {
		var ticket []byte
		ticket, err = seal(c, noon)
		require.LessOrEqual(t, len(ticket), maxTicket)
	}
	require.Greater(t, sealed, 4)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "of all endpoints")
	require.NotEmpty(t, fault.As(err).Remedy)
}

// FuzzTicket checks that only signed bytes are accepted as a ticket.
//
// spec: ticket-3
func FuzzTicket(f *testing.F) {
	keys := tickettest.Keys(f)
	good, err := keys.Seal(tickettest.Golden(), noon.Add(time.Hour))
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:50])
	f.Add([]byte("pst\x01\x02k2"))
	f.Add([]byte("pst\x01\x00"))
	f.Add([]byte("pst\x02\xff"))
	f.Fuzz(func(t *testing.T, ticket []byte) {
		_, err := keys.Open(ticket, noon)
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
				_, err := keys.Open(changed, noon)
				require.Error(t, err)
			}
		}
	})
}
