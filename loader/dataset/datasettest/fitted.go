package datasettest

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/dataset"
)

// Fitted returns a fitted list of whole numbers whose file was read.
func Fitted(name string, values ...int64) dataset.Fitted {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	list, err := expr.NewList(b.NewArray())
	if err != nil {
		panic(err)
	}
	return dataset.Fitted{Name: name, File: name + ".json", Digest: "sha256:" + strings.Repeat("0", 64), List: list}
}
