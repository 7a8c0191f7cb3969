package loader

import (
	"context"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/verify"
)

// Verification is the result of Verify.
type Verification = verify.Report

// VerifyProgress is the progress of a call of Verify.
type VerifyProgress = verify.Progress

// Verify reads the keys of every table of a query's dataset and checks two things: that the files
// are laid out as their manifests state, and that the dataset's rules hold. The report's findings
// list the violations; an error means that Verify could not complete. Verify calls progress from
// time to time, unless progress is nil.
func (l *Loader) Verify(ctx context.Context, request PlanRequest, progress func(VerifyProgress)) (*Verification, error) {
	p, err := l.planListed(ctx, request, allEntries)
	if err != nil {
		return nil, err
	}
	defer l.keep(p.Plan, plan.Part{}).Release()
	return verify.Run(ctx, p.Plan, verify.Options{
		Catalog: l.options.Catalog, Budget: l.options.Budget, Progress: progress, CheckLimits: l.limitsFor(request.Rights),
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (verify.ChecksummedRows, error) {
			return l.options.Scan(ctx, source, columns)
		},
	})
}

// limitsFor returns the function that checks limits of values for a client. It refuses tables of which the client may not read all
// columns and rows, because a finding has values of the table.
func (l *Loader) limitsFor(rights policy.Rights) verify.CheckLimits {
	if l.options.CheckLimits == nil {
		return nil
	}
	return func(ctx context.Context, table string, snapshot int64, limits dataset.Limits) (*drift.Checked, error) {
		if !rights.Of(table).IsZero() {
			return nil, fault.New(fault.Forbidden, "columns or rows of table %s are withheld from you", table)
		}
		return l.options.CheckLimits(ctx, table, snapshot, limits)
	}
}
