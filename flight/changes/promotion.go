package changes

import (
	"context"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/promote"
	"github.com/penstock/penstock/loader/stage"
)

// Promoter adds columns to training tables; *promote.Promoter is one. It is safe for concurrent use.
type Promoter interface {
	Promote(ctx context.Context, request promote.PromotionRequest) (promote.PromotionResult, error)
	Demote(ctx context.Context, request promote.DemotionRequest) (promote.Demotion, error)
}

// Promoted is the result of promote. Readers describes how datasets read the training table after
// the change; nil if they were not checked.
type Promoted struct {
	promote.PromotionResult
	Readers []stage.ReaderCheck `json:"readers,omitzero"`
}

// Demoted is the result of demote. Readers is as in Promoted.
type Demoted struct {
	promote.Demotion
	Readers []stage.ReaderCheck `json:"readers,omitzero"`
}

func (w *Service) promote(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Promote(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	d, err := w.options.Guard.Promotable(c, asked.Dataset)
	if err != nil {
		return nil, err
	}
	var out Promoted
	var check func(context.Context) []stage.ReaderCheck
	change := tableChange{event: audit.Promote, needs: policy.Promote, tables: []string{d.Training.Table}}
	err = w.change(ctx, c, change, len(body), func(ctx context.Context) error {
		c.Note.Dataset(asked.Dataset)
		request := promote.PromotionRequest{
			Entries: asked.Entries, Earlier: earlierOf(asked.Earlier), DryRun: asked.DryRun,
			ReaderOptions: w.readerOptions(c, asked.NoCheck), Progress: promoting(to, d.Training.Table),
		}
		// The configuration and the policy may have changed while the call waited.
		if request.Dataset, err = w.options.Guard.Promotable(c, asked.Dataset); err != nil {
			return err
		}
		if request.Dataset.Training.Table != d.Training.Table {
			return access.ChangedMeanwhile(dataset.Query{Rows: dataset.Rows{Dataset: asked.Dataset}})
		}
		check = w.checkAround(ctx, c, CheckedChange{Table: d.Training.Table}, asked.NoCheck || asked.DryRun)
		out.PromotionResult, err = w.options.Promoter.Promote(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Readers = check(ctx)
	return []any{out}, nil
}

// readerOptions returns the options of a check of datasets, whose errors name the datasets that the caller may read.
func (w *Service) readerOptions(c *call.Call, noCheck bool) promote.ReaderOptions {
	return promote.ReaderOptions{NoCheck: noCheck, Shown: func(dataset string) bool { return w.options.Guard.MayRead(c, dataset) }}
}

// earlierOf returns how to handle an unfinished promotion.
func earlierOf(asked decode.EarlierPromotion) promote.Earlier {
	switch asked {
	case decode.ContinuePromotion:
		return promote.Continue
	case decode.RestartPromotion:
		return promote.Restart
	}
	return promote.ContinueEqual
}

// promoting returns a function that reports the progress of a promotion. files is the number of files in the
// table, and done the number that have the columns. In a dry run, done also counts files whose footers were read.
func promoting(to *progress.Sender, table string) func(promote.PromotionProgress) {
	return func(at promote.PromotionProgress) {
		now := progress.Message{Table: table, Step: "rewrite", Counts: progress.Counts{
			RowsWritten: at.Rows, Files: int64(at.FilesDone), OfFiles: int64(at.Files), Bytes: at.BytesWritten,
		}}
		if at.FilesChecked > 0 {
			now.Step = "check"
			now.Counts = progress.Counts{Files: int64(at.FilesDone + at.FilesChecked), OfFiles: int64(at.Files)}
		}
		to.At(now)
	}
}

func (w *Service) demote(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	asked, err := decode.Demote(body)
	if err != nil {
		return nil, err
	}
	to.Wanted(asked.Progress)
	var out Demoted
	var check func(context.Context) []stage.ReaderCheck
	change := tableChange{event: audit.Demote, needs: policy.Promote, tables: []string{asked.Table}}
	err = w.change(ctx, c, change, len(body), func(ctx context.Context) error {
		to.At(progress.Message{Step: "move"})
		check = w.checkAround(ctx, c, CheckedChange{Table: asked.Table}, asked.NoCheck || asked.DryRun)
		out.Demotion, err = w.options.Promoter.Demote(ctx, promote.DemotionRequest{
			Table: asked.Table, Columns: asked.Columns, DryRun: asked.DryRun, ReaderOptions: w.readerOptions(c, asked.NoCheck),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Readers = check(ctx)
	return []any{out}, nil
}
