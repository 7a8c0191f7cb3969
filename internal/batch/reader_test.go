package batch_test

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/invariant"
)

var errBroken = errors.New("broken")

func readerSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
}

// counting returns a reader of n batches and then err, which counts the calls.
func counting(mem memory.Allocator, n int, err error) (r array.RecordReader, nexts, releases *int) {
	nexts, releases = new(int), new(int)
	return batch.FromFunc(readerSchema(), func() (arrow.RecordBatch, error) {
		*nexts++
		if *nexts > n {
			return nil, err
		}
		b := array.NewRecordBuilder(mem, readerSchema())
		defer b.Release()
		b.Field(0).(*array.Int64Builder).Append(int64(*nexts))
		return b.NewRecordBatch(), nil
	}, func() { *releases++ }), nexts, releases
}

func TestFromFuncReadsToTheEnd(t *testing.T) {
	for _, failure := range []error{nil, errBroken} {
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		r, nexts, releases := counting(mem, 3, failure)
		require.Zero(t, *nexts, "nothing happens before the first Next")
		require.Nil(t, r.RecordBatch())
		require.Equal(t, readerSchema(), r.Schema())
		for i := range int64(3) {
			require.True(t, r.Next())
			require.Equal(t, i+1, r.RecordBatch().Column(0).(*array.Int64).Value(0))
			require.NoError(t, r.Err())
		}
		for range 2 {
			require.False(t, r.Next())
			require.Nil(t, r.RecordBatch())
			require.Equal(t, failure, r.Err())
		}
		require.Equal(t, 4, *nexts, "next is not called after the end")
		mem.AssertSize(t, 0)
		require.Zero(t, *releases)
		r.Release()
		require.Equal(t, 1, *releases)
	}
}

func TestFromFuncReleasesTheCurrentBatch(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.NewAllocator())
	r, _, releases := counting(mem, 3, nil)
	require.True(t, r.Next())
	kept := r.RecordBatch()
	kept.Retain()
	require.True(t, r.Next())
	r.Retain()
	r.Release()
	require.NotNil(t, r.RecordBatch())
	require.Zero(t, *releases)
	r.Release()
	require.Equal(t, 1, *releases)
	require.False(t, r.Next(), "a released reader is at its end")
	require.EqualValues(t, 1, kept.Column(0).(*array.Int64).Value(0))
	kept.Release()
	mem.AssertSize(t, 0)
}

func TestFromFuncWithABatchAndAnError(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.NewAllocator())
	r := batch.FromFunc(readerSchema(), func() (arrow.RecordBatch, error) {
		b := array.NewRecordBuilder(mem, readerSchema())
		defer b.Release()
		b.Field(0).(*array.Int64Builder).Append(1)
		return b.NewRecordBatch(), errBroken
	}, nil)
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), errBroken)
	r.Release()
	mem.AssertSize(t, 0)
}

func TestGuard(t *testing.T) {
	if !invariant.On {
		r, _, _ := counting(memory.DefaultAllocator, 1, nil)
		require.Equal(t, r, batch.Guard(r))
		return
	}
	guarded := func(err error) array.RecordReader {
		r, _, _ := counting(memory.DefaultAllocator, 1, err)
		return batch.Guard(r)
	}
	drained := func(err error) array.RecordReader {
		r := guarded(err)
		for r.Next() {
			require.NotNil(t, r.RecordBatch())
		}
		return r
	}
	released := func() array.RecordReader {
		r := drained(nil)
		r.Release()
		return r
	}
	for name, abuse := range map[string]func(){
		"Next after Release":        func() { released().Next() },
		"RecordBatch after Release": func() { released().RecordBatch() },
		"Retain after Release":      func() { released().Retain() },
		"Release after Release":     func() { released().Release() },
		"Next after an error":       func() { drained(errBroken).Next() },
		"RecordBatch before Next":   func() { guarded(nil).RecordBatch() },
		"RecordBatch after the end": func() { drained(nil).RecordBatch() },
		"a batch of another schema": func() { batch.Guard(otherSchema()).Next() },
	} {
		require.Panics(t, abuse, name)
	}
	r := drained(nil)
	require.False(t, r.Next(), "Next after the end is allowed")
	r.Retain()
	r.Release()
	require.NoError(t, r.Err())
	r.Release()
}

func otherSchema() array.RecordReader {
	return batch.FromFunc(arrow.NewSchema(nil, nil), func() (arrow.RecordBatch, error) {
		return newSource(1).batch(1, false), nil
	}, nil)
}
