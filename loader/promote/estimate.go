package promote

import (
	"context"
	"math"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
)

// Estimate is the expected cost of a promotion, extrapolated from writing and discarding some
// files.
type Estimate struct {
	SampledRows int64 `json:"sampled_rows"`
	// Seconds is the expected time on this machine.
	Seconds float64 `json:"seconds"`
	// StagingBytes is the number of bytes that an epoch now reads from the staging tables.
	// ColumnBytes is the number of bytes of the new columns, which it would read instead.
	StagingBytes int64 `json:"staging_bytes_per_epoch"`
	ColumnBytes  int64 `json:"column_bytes_per_epoch"`
	// Epochs is the number of epochs after which the saved bytes cover the bytes that the promotion
	// reads and writes; 0: never.
	Epochs int64 `json:"pays_after_epochs"`
}

// estimate sets the result of a dry run.
func (p *promoting) estimate(ctx context.Context) error {
	pending, err := p.pending(ctx)
	if err != nil {
		return err
	}
	if err := p.checkFiles(ctx, pending); err != nil {
		return err
	}
	if p.result.Estimate == nil {
		p.result.Estimate = &Estimate{}
	}
	out := p.result.Estimate
	for _, f := range pending {
		p.countRows(f, f.Location)
		p.result.BytesCopied += f.Bytes
	}
	newBytes, seconds := 0.0, 0.0
	for _, locations := range bySpec(pending) {
		values, err := p.plan(ctx, func(f catalog.File) bool { return locations[f.Location] })
		if err != nil {
			return err
		}
		if err := p.checkSources(ctx, values, pending); err != nil {
			return err
		}
		s, err := p.sampleOf(ctx, values)
		values.loader.DropKeptBuildSides()
		if err != nil {
			return err
		}
		out.SampledRows += s.rows
		newBytes += s.newBytes * float64(values.StoredRows) / float64(s.rows)
		seconds += s.seconds * float64(values.StoredRows) / float64(s.rows)
		out.StagingBytes += s.stagingBytes
	}
	out.Seconds += math.Round(seconds/float64(p.options.Threads)*10) / 10
	out.ColumnBytes += int64(newBytes)
	p.result.BytesWritten = p.result.BytesCopied + out.ColumnBytes
	if saved := out.StagingBytes - out.ColumnBytes; saved > 0 {
		out.Epochs = (p.result.BytesCopied + p.result.BytesWritten + out.StagingBytes + saved - 1) / saved
	}
	return nil
}

// costSample is the cost of writing some files.
type costSample struct {
	rows              int64
	newBytes, seconds float64
	stagingBytes      int64 // of all files of the plan
}

// sampleOf measures the cost of writing the first files of a plan, and discards them.
func (p *promoting) sampleOf(ctx context.Context, values *valuePlan) (costSample, error) {
	runs, err := values.runs(1)
	if err != nil {
		return costSample{}, err
	}
	begun := p.options.Clock()
	done, err := p.rewriteRun(ctx, values, nowhere{}, runs[0])
	if err != nil {
		return costSample{}, err
	}
	out := costSample{seconds: p.options.Clock().Sub(begun).Seconds()}
	p.count(done.matches)
	for _, f := range done.files {
		out.rows += f.made.Rows
		for _, bytes := range f.made.ColumnBytes {
			out.newBytes += float64(bytes)
		}
	}
	if out.rows == 0 {
		return out, fault.New(fault.Internal, "a file of the plan has no rows")
	}
	for i := range values.Staging {
		for _, g := range values.Staging[i].Groups {
			out.stagingBytes += g.Bytes
		}
	}
	return out, nil
}

// nowhere is a store that discards all content.
type nowhere struct{}

// Begin implements store.Uploader.
func (nowhere) Begin(_ context.Context, location string, _ store.Reserve) (store.Upload, error) {
	return forgetting(location), nil
}

// Create implements store.Writer.
func (nowhere) Create(context.Context, string, *memory.Buffer) error { return nil }

// Remove implements store.Writer.
func (nowhere) Remove(context.Context, string) error { return nil }

// forgetting is an upload that discards its content. Its value is its location.
type forgetting string

// Write implements store.Upload.
func (forgetting) Write(context.Context, *memory.Buffer) error { return nil }

// Finish implements store.Upload.
func (forgetting) Finish(context.Context) error { return nil }

// Abort implements store.Upload.
func (forgetting) Abort(context.Context) error { return nil }

// Location implements store.Upload.
func (f forgetting) Location() string { return string(f) }
