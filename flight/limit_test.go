package flight

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/waits"
)

// TestReadsKeepEachCount: no count of reads is lost in the status, or between two of them.
//
// spec: status-16
func TestReadsKeepEachCount(t *testing.T) {
	t.Parallel()
	var all waits.Reads
	of := reflect.ValueOf(&all).Elem()
	for i := range of.NumField() {
		of.Field(i).SetInt(int64(i+1) * int64(time.Millisecond))
	}
	sent := readCounts(all)
	require.Equal(t, all, sent.reads())
	require.Equal(t, reflect.TypeFor[waits.Reads]().NumField(), reflect.TypeFor[ReadCounts]().NumField())
	twice := all
	for i := range of.NumField() {
		v := reflect.ValueOf(&twice).Elem().Field(i)
		v.SetInt(2 * v.Int())
	}
	require.Equal(t, sent, StreamStatus{Reads: readCounts(twice)}.Since(StreamStatus{Reads: sent}).Reads)
}
