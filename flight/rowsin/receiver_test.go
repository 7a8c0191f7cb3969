package rowsin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// supply is a client whose messages arrive when the test says so.
type supply chan error

// RecvMsg implements Source.
func (s supply) RecvMsg(m any) error {
	err := <-s
	m.(*message).metadata = []byte("received") //nolint:forcetypeassert // nothing else is received
	return err
}

// Wait implements Pace.
func (supply) Wait(ctx context.Context, done <-chan struct{}, _ int64) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// While a message is in use, the next one is received, and its memory is reserved before.
//
// spec: stage-64, stage-166
func TestTheNextMessageIsReceivedWhileOneIsInUse(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, c := range map[string]struct {
		others int64 // bytes of the budget that others use
		ahead  bool
	}{"plentiful memory": {0, true}, "half of the memory in use": {8*limit + 1, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				memory := budget.New(16 * limit)
				held, err := memory.Reserve("of a message", 0)
				require.NoError(t, err)
				_, err = memory.Reserve("others", c.others)
				require.NoError(t, err)
				client := make(supply)
				r := newReceiver(client, Options{Pace: client, Budget: memory, Limit: limit})
				var m *message
				go func() { client <- nil }()
				m, held, err = r.receive(t.Context(), held, 0)
				require.NoError(t, err)
				require.Equal(t, "received", string(m.metadata))
				require.EqualValues(t, 2*limit, held.Held())
				held.Shrink(2*limit - 100) // the message is in use
				require.NoError(t, r.receiveAhead())
				synctest.Wait()
				arrived := false
				select {
				case client <- nil:
					arrived = true
				default:
				}
				require.Equal(t, c.ahead, arrived)
				if !c.ahead {
					require.Equal(t, c.others+100, memory.Used())
					go func() { client <- nil }()
				} else {
					require.EqualValues(t, 2*limit+100, memory.Used())
				}
				m, held, err = r.receive(t.Context(), held, 0)
				require.NoError(t, err)
				require.Equal(t, "received", string(m.metadata))
				require.Equal(t, 2*limit+c.others, memory.Used(), "the memory of the first message is free")
				held.Release()
				r.close()
				require.Equal(t, c.others, memory.Used())
			})
		})
	}
}

// A message that is too large ends the call's context while the previous message is in use.
//
// spec: stage-63
func TestACallEndsByTheMessageThatWasTooLarge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := budget.New(1 << 30)
		client := make(supply)
		r := newReceiver(client, Options{Pace: client, Budget: memory, Limit: 1 << 20})
		ended := errors.New("the call ended")
		require.Equal(t, ended, r.cause(ended))
		require.NoError(t, r.receiveAhead())
		require.Equal(t, ended, r.cause(ended), "nothing has arrived")
		client <- status.Error(codes.ResourceExhausted, "received message larger than max")
		synctest.Wait()
		require.Equal(t, fault.Exhausted, fault.KindOf(r.cause(ended)))
		r.close()
		require.Zero(t, memory.Used())
	})
}
