package auth

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/cmd/penstock/keyfile"
	"github.com/penstock/penstock/cmd/penstock/watch"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/policy"
)

// policyCheck is the time limit for comparing a policy with the tables of the catalogs.
const policyCheck = 30 * time.Second

// PolicyFiles is the name of the policy file's group in the watcher.
const PolicyFiles = "the policy"

// Policy holds the policy that was loaded last.
type Policy struct {
	*Guard
	config *config.Config
	loader *loader.Loader
	now    atomic.Pointer[policy.Policy]
}

// OpenPolicy loads the policy file now and whenever it changes. Without a policy, every client that
// the server admits may read all datasets. Such clients may also send datasets of their own, but
// only if clients need no credentials and the server is reachable only from this machine.
func (g *Guard) OpenPolicy(ctx context.Context, c *config.Config, l *loader.Loader, on net.Listener) (*Policy, error) {
	p := &Policy{Guard: g, config: c, loader: l}
	if g.settings.Policy == "" {
		at, isTCP := on.Addr().(*net.TCPAddr)
		p.now.Store(policy.Open(!g.authenticates() && (!isTCP || at.IP.IsLoopback())))
		return p, nil
	}
	if !g.authenticates() {
		g.log.WarnContext(ctx, `the policy's rules are for all clients alike, which have no subjects: only those of "*" apply`, "missing", "tokens or jwt_issuer")
	}
	return p, g.Watcher.Load(ctx, watch.LoadedFiles{What: PolicyFiles, Paths: []string{g.settings.Policy}, Load: p.load})
}

// load reads the policy file, and checks whether its rules fit the tables of the catalogs.
func (p *Policy) load(ctx context.Context) error {
	path := p.settings.Policy
	text, err := keyfile.Read("policy", path, keyfile.Public)
	if err != nil {
		return err
	}
	made, err := p.config.ParsePolicy(text)
	if err == nil {
		limit, cancel := context.WithTimeout(ctx, policyCheck)
		defer cancel()
		err = p.loader.CheckPolicy(limit, made, func(table string, err error) {
			p.log.WarnContext(ctx, "a table of the policy cannot be checked now: it is refused if the rule does not fit", "policy", path, "table", table, "error", err)
		})
	}
	if err != nil {
		return fault.As(fault.Op(err, "read the policy of %s", path)).In("", path)
	}
	p.now.Store(made)
	return nil
}

// WatchNames compares the datasets that the policy names with those of the server, now and after
// each change of the policy or the config file. Both files may change together. after is the name
// of the group that the watcher loads last of the two, and the names are compared after that group
// is loaded.
func (p *Policy) WatchNames(ctx context.Context, after string) error {
	if p.settings.Policy == "" {
		return nil
	}
	return p.Watcher.Load(ctx, watch.LoadedFiles{
		What: "the datasets that the policy names", Paths: []string{p.settings.Policy, p.config.File}, Load: p.checkNames, After: after, Checks: true,
	})
}

// checkNames logs the names in the policy that match no dataset. Such names are not errors, because
// a dataset may be added later.
func (p *Policy) checkNames(ctx context.Context) error {
	var known []string
	for _, d := range p.loader.Datasets() {
		known = append(known, d.Name)
	}
	if missing := p.now.Load().Unmatched(known); len(missing) > 0 {
		p.log.WarnContext(ctx, "the policy names datasets that the server does not have", "policy", p.settings.Policy, "read", missing)
	}
	return nil
}

// InUse returns the policy that applies at present.
func (p *Policy) InUse() *policy.Policy { return p.now.Load() }
