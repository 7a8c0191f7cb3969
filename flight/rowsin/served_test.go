package rowsin

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/damage"
	"github.com/penstock/penstock/internal/batch/batchtest"
)

// readServed reads the batches of messages, followed by a report. It returns the messages that were
// received for each batch, and for the report.
func readServed(messages []*message, use func(arrow.RecordBatch)) (parts [][]Part, err error) {
	left := append(messages[1:len(messages):len(messages)], &message{metadata: []byte(`{"report": {}}`)})
	next := func(context.Context) (*Message, error) {
		if len(left) == 0 {
			return nil, io.EOF
		}
		m := &Message{*left[0]}
		left = left[1:]
		return m, nil
	}
	ctx := context.Background()
	s, err := OpenServed(ctx, &Message{*messages[0]}, next, minMessage)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		b, err := s.Next(ctx)
		parts = append(parts, s.Parts())
		if b == nil {
			return parts, err
		}
		use(b)
		b.Release()
	}
}

// The stream of a server is decoded as the Arrow library decodes it, and its messages stay as they
// came.
func TestServedBatchesAreThoseOfArrow(t *testing.T) {
	for i, messages := range validForms(t) {
		if head, _ := messages[1].inspect(); head.codec != notCompressed {
			_, err := readServed(messages, func(arrow.RecordBatch) {})
			require.ErrorContains(t, err, "compressed", i)
			continue
		}
		want, sent, n := plainly(t, cloned(messages)), cloned(messages), 0
		parts, err := readServed(sent, func(b arrow.RecordBatch) {
			require.True(t, array.RecordEqual(want[n], b), i)
			n++
		})
		require.NoError(t, err)
		require.Len(t, want, n)
		require.Len(t, parts, n+1)
		require.JSONEq(t, `{"report": {}}`, string(parts[n][0].Metadata()))
		came := 1
		for _, of := range parts[:n] {
			for at, part := range of {
				require.Equal(t, at < len(of)-1, part.IsDictionary, i)
				require.True(t, part.HasArrow())
				var again message
				require.NoError(t, again.Unmarshal(part.Marshal()))
				require.Equal(t, messages[came].header, again.header)
				require.Equal(t, string(messages[came].body), string(again.body))
				came++
			}
		}
		require.Len(t, messages, came)
	}
}

// The dictionaries of a stream are bounded.
func TestDictionariesOfServedStreamsAreBounded(t *testing.T) {
	long := string(make([]byte, minMessage*3/4))
	messages := messagesOf(t, []arrow.RecordBatch{dictionaryOf(long)})
	n := 0
	_, err := readServed(messages, func(arrow.RecordBatch) { n++ })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	many := []*message{messages[0], messages[1], messages[2]}
	twice := messagesOf(t, []arrow.RecordBatch{dictionaryOf(long + long)})
	_, err = readServed(append(many, twice[1:]...), func(arrow.RecordBatch) { n++ })
	require.Error(t, err)
	require.Equal(t, 2, n)
}

// Damaged messages of a server never cause a panic.
func TestDamagedMessagesOfServersAreErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	forms := append(validForms(t), messagesOf(t, []arrow.RecordBatch{batchtest.IDs(0, 100)}))
	failed := 0
	for n := range 2000 {
		sent := cloned(forms[n%len(forms)])
		one := sent[random.IntN(len(sent))]
		damage.Change(damage.Message{Header: one.header, Body: one.body}, random.IntN)
		if _, err := readServed(sent, func(arrow.RecordBatch) {}); err != nil {
			failed++
		}
	}
	require.NotZero(t, failed)
}
