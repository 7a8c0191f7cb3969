package main

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

// policyCheck is how long comparing a policy with the tables of the catalogs may take.
const policyCheck = 30 * time.Second

// policyFiles is the watcher's name of the policy.
const policyFiles = "the policy"

// policyInUse is who may do what: the policy that was loaded last.
type policyInUse struct {
	*entrance
	config *config.Config
	loader *loader.Loader
	now    atomic.Pointer[policy.Policy]
}

// openPolicy loads the policy's file, and again whenever it changes. Without one, every client that the server admits may read
// all datasets, and it may send datasets of its own if it is a program on this machine that needs no credentials.
func (a *entrance) openPolicy(ctx context.Context, c *config.Config, l *loader.Loader, on net.Listener) (*policyInUse, error) {
	p := &policyInUse{entrance: a, config: c, loader: l}
	if a.settings.Policy == "" {
		at, isTCP := on.Addr().(*net.TCPAddr)
		p.now.Store(policy.Open(!a.authenticates() && (!isTCP || at.IP.IsLoopback())))
		return p, nil
	}
	if !a.authenticates() {
		a.log.WarnContext(ctx, `the policy's rules are for all clients alike, which have no subjects: only those of "*" apply`, "missing", "tokens or jwt_issuer")
	}
	return p, a.watcher.Load(ctx, watch.LoadedFiles{What: policyFiles, Paths: []string{a.settings.Policy}, Load: p.load})
}

// load reads the policy's file.
func (p *policyInUse) load(ctx context.Context) error {
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

// watchNames compares the datasets that the policy names with those of the server, now and after each change of the policy or the
// config file: once both are loaded, as they may change together.
func (p *policyInUse) watchNames(ctx context.Context) error {
	if p.settings.Policy == "" {
		return nil
	}
	after := configFiles
	if !isWatched(p.config.File) {
		after = policyFiles
	}
	return p.watcher.Load(ctx, watch.LoadedFiles{
		What: "the datasets that the policy names", Paths: []string{p.settings.Policy, p.config.File}, Load: p.checkNames, After: after,
	})
}

// checkNames logs the names of the policy that match no dataset. They are not errors: a dataset may be added later.
func (p *policyInUse) checkNames(ctx context.Context) error {
	if missing := p.now.Load().Unmatched(names(p.loader.Datasets())); len(missing) > 0 {
		p.log.WarnContext(ctx, "the policy names datasets that the server does not have", "policy", p.settings.Policy, "read", missing)
	}
	return nil
}

// policy returns the policy that applies now.
func (p *policyInUse) policy() *policy.Policy { return p.now.Load() }
