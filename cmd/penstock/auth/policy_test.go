package auth

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
)

// sends reports whether a client may send a dataset.
func sends(p *Policy) bool {
	_, may := p.InUse().Inline(identity.Caller{Subject: "bob"}, dataset.Dataset{Training: dataset.Training{Table: "ml.impressions"}})
	return may
}

// reads reports whether a client may read a dataset.
func reads(p *Policy, name string) bool {
	_, may := p.InUse().Read(identity.Caller{Subject: "bob"}, name)
	return may
}

// Without a policy, all clients read all datasets, and those on this machine may send datasets if clients need no credentials.
//
// spec: access-13
func TestServersWithoutAPolicy(t *testing.T) {
	_, line := issued(t, "bob", time.Time{})
	for name, c := range map[string]struct {
		settings config.Server
		sends    bool
	}{
		"on this machine":              {config.Server{}, true},
		"on this machine, with tokens": {config.Server{Tokens: file(t, "server.tokens", line)}, false},
	} {
		g, _ := opened(t, c.settings)
		p, err := g.OpenPolicy(t.Context(), &config.Config{}, nil, loopback(t, g))
		require.NoError(t, err)
		require.NoError(t, p.WatchNames(t.Context(), ""))
		require.True(t, reads(p, "home"), name)
		require.Equal(t, c.sends, sends(p), name)
	}
	g, _ := opened(t, config.Server{Insecure: true, TicketKeys: ticketKeyFile(t)})
	on, err := g.Listen(t.Context(), "listen", "0.0.0.0:0")
	require.NoError(t, err)
	defer on.Close() //nolint:errcheck // nothing was sent
	p, err := g.OpenPolicy(t.Context(), &config.Config{}, nil, on)
	require.NoError(t, err)
	require.True(t, reads(p, "home"))
	require.False(t, sends(p), "other machines reach the server")
}

// A policy is compared with the tables of the catalogs. One that does not fit is refused, and changes nothing; tables that
// cannot be read and datasets that do not exist are logged.
func TestPoliciesFitTheTables(t *testing.T) {
	tables := catalogtest.NewMemory()
	require.NoError(t, tables.AddTable("ml.impressions", catalogtest.Fields(), nil))
	l := loader.New(loader.Options{Catalog: tables, Budget: budget.New(1 << 20), Datasets: []dataset.Dataset{{Name: "home"}}})
	const first = "rules:\n- subjects: [\"*\"]\n  read: [home, \"gone*\"]\n  tables:\n    ml.none: {withheld: [a]}\n"
	path := file(t, "policy.yaml", first)
	g, log := opened(t, config.Server{Policy: path})
	p, err := g.OpenPolicy(t.Context(), &config.Config{}, l, loopback(t, g))
	require.NoError(t, err)
	require.Contains(t, log.String(), "the policy's rules are for all clients alike")
	require.Contains(t, log.String(), "a table of the policy cannot be checked now")
	require.Contains(t, log.String(), "table=ml.none")
	require.NoError(t, p.WatchNames(t.Context(), ""))
	require.Contains(t, log.String(), "read=[gone*]")
	require.True(t, reads(p, "home") && !reads(p, "other"))

	for text, says := range map[string]string{
		"rules: [": "is not YAML",
		"rules:\n- subjects: [\"*\"]\n  read: [other]\n  tables:\n    ml.impressions: {withheld: [dya]}\n":         `no column "dya" (line 5)`,
		"rules:\n- subjects: [\"*\"]\n  read: [other]\n  tables:\n    ml.impressions: {filter: \"id = 'text'\"}\n": "(line 5)",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		err := p.load(t.Context())
		require.ErrorContains(t, err, "read the policy of "+path)
		require.ErrorContains(t, err, says)
		require.True(t, reads(p, "home") && !reads(p, "other"), "the policy before stays in use")
	}
	require.NoError(t, os.WriteFile(path, []byte("rules:\n- subjects: [\"*\"]\n  read: [other]\n  tables:\n    ml.impressions: {withheld: [day], filter: \"id > 1\"}\n"), 0o600))
	require.NoError(t, p.load(t.Context()))
	require.True(t, reads(p, "other") && !reads(p, "home"))
}
