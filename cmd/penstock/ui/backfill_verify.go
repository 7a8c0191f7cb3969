package ui

import (
	"context"
	"iter"
	"net/http"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
)

// verifyBody is the page of a verification. Its parts are sent while it runs.
type verifyBody struct {
	Table, Branch, Link string
	coverage            covered
	measured            *measurement[*verifiedBranch]
	flush               func()
}

// verification is the end of a verification.
type verification struct {
	covered
	Clean bool
	Text  string // what penstock verify prints
}

// verifyBackfill verifies a dataset with a branch of a staging table. The verification ends when the browser has gone, or when the same viewer
// begins another measurement.
func (p *pages) verifyBackfill(w http.ResponseWriter, r *http.Request) {
	ctx, end := p.measuring.begin(r.Context(), r.Header.Get("Authorization"))
	defer end()
	ctx, cancel := context.WithTimeoutCause(ctx, measureTime, tookTooLong())
	defer cancel()
	state, err := p.branch(ctx, r.PathValue("name"), r.URL.Query().Get("branch"))
	if err != nil {
		p.fail(w, r, "backfill", err)
		return
	}
	counted := newCovered(state, r)
	if counted.Dataset == "" {
		p.fail(w, r, "backfill", fault.InvalidField("dataset", "no dataset reads table %s", state.Table).WithRemedy("name the dataset to verify it with"))
		return
	}
	m := measure(ctx, func(ctx context.Context, report func(progress.Message)) (*verifiedBranch, error) {
		return p.verifyBranch(ctx, state, counted.Dataset, report)
	})
	defer m.stop(cancel)
	if err := m.begun(); err != nil {
		p.fail(w, r, "backfill", err)
		return
	}
	body := verifyBody{state.Table, state.Branch, backfillLink(state.Table, state.Branch), counted, m, inParts(w)}
	what := shown{Title: "Check of " + state.Branch + " of " + state.Table, Section: "backfills", Version: p.Version, Body: body}
	_ = p.templates["verify"].ExecuteTemplate(w, "page", what) // the browser may be gone
}

// verifyBranch verifies a dataset with a branch, and counts its rows.
func (p *pages) verifyBranch(ctx context.Context, of *branchState, dataset string, report func(progress.Message)) (*verifiedBranch, error) {
	query, err := p.branchQueryOf(ctx, of, dataset)
	if err != nil {
		return nil, err
	}
	out := &verifiedBranch{query: query}
	if out.counts, err = p.Count.Coverage(ctx, query.text); err != nil {
		return nil, err
	}
	out.report, err = p.Count.Verify(ctx, query.text, report)
	return out, err
}

// Steps returns how far the verification is, until it ends.
func (b verifyBody) Steps() iter.Seq[measureStep] { return b.measured.steps(b.flush) }

// Outcome returns the result of the verification, which has ended.
func (b verifyBody) Outcome() verification {
	out := verification{covered: b.coverage}
	m := b.measured
	err := m.failure()
	if err == nil {
		out.Clean, out.Text = m.found.report.Clean(), m.found.report.String()
		err = out.verified(m.found, m.began, m.ended)
	}
	if err != nil {
		e := failureOf(err)
		out.Failure, out.Remedy = e.Message, e.Remedy
	}
	return out
}
