package main

import (
	"context"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/cmd/penstock/inputs"
)

// rows returns the rows of the files. The caller releases them.
func (s *stageCall) rows(ctx context.Context, o inputs.Options) (array.RecordReader, error) {
	o.Threads = runtime.GOMAXPROCS(0)
	files, err := inputs.Find(ctx, s.files, o)
	if err != nil {
		return nil, err
	}
	return inputs.Open(ctx, files, o)
}
