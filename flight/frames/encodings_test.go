package frames

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// Streams that send the same batch at the same time share its encoding: with equal bytes, and their
// own cursors.
func TestStreamsShareTheEncodingOfABatch(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]arrow.RecordBatch{"plain": everyType(t, memory.DefaultAllocator), "indexed": dictionaries(t, 0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := NewEncoder(b.Schema()).Batch(b, []byte("cursor 1"), nil)
			require.NoError(t, err)
			e := NewEncodings()
			one, two := NewEncoder(b.Schema()), NewEncoder(b.Schema())
			first := NewBatchLease(b, nil, e)
			before, err := one.Batch(b, []byte("cursor 0"), first)
			require.NoError(t, err)
			second := NewBatchLease(b, nil, e)
			require.Same(t, first.encoding, second.encoding)
			first.end()
			second.encoding.messages[0].header = append([]byte{}, second.encoding.messages[0].header...) // which frames of two alone would not have
			got, err := two.Batch(b, []byte("cursor 1"), second)
			require.NoError(t, err)
			require.Same(t, &second.encoding.messages[0].header[0], &got[0].header[0])
			require.Equal(t, "cursor 0", string(before[len(before)-1].metadata))
			for i, f := range want {
				require.Equal(t, f.Marshal().Materialize(), got[i].Marshal().Materialize())
			}
			second.end()
			require.Empty(t, e.all)
		})
	}
}

// A batch that another stream has encoded must have the schema that this stream has sent.
func TestSharedBatchOfAnotherSchemaFails(t *testing.T) {
	t.Parallel()
	b, e := numbers(1), NewEncodings()
	l := NewBatchLease(b, nil, e)
	_, err := NewEncoder(b.Schema()).Batch(b, nil, l)
	require.NoError(t, err)
	other := NewBatchLease(b, nil, e)
	_, err = NewEncoder(everyType(t, memory.DefaultAllocator).Schema()).Batch(b, nil, other)
	require.ErrorContains(t, err, "a batch has the schema")
	l.end()
	other.end()
}
