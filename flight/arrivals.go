package flight

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/internal/fault"
)

// Limits on what a client can make a server hold before its request has arrived. gRPC bounds each connection and each
// call; these bound all of them together.
const (
	maxHeaderBytes   = 16 << 10 // of a call; gRPC counts what references in them stand for
	maxCalls         = 128      // at a time, of one connection
	maxReceived      = 2 << 20  // bytes of a message from a client: queries and cursors
	receiveWindow    = 64 << 10 // bytes that a client may send ahead, on a call and on a connection
	handshakeTimeout = 10 * time.Second
	maxArriving      = 1024             // open calls whose request has not arrived
	arrivalTimeout   = 10 * time.Second // for a request to arrive
	maxRefused       = 1024             // calls of a connection that have a deadline, see connection.keep
)

// arrivals counts the open calls whose request has not arrived. Of these, gRPC holds the headers and
// what has come of the message. It is safe for concurrent use.
type arrivals struct {
	counts  *hostCounts
	timeout time.Duration
}

func newArrivals(hostShare int) *arrivals {
	return &arrivals{counts: newHostCounts(maxArriving, hostShare), timeout: arrivalTimeout}
}

// arrivalKey is the key of a context's arrival: a function to be called once the request has arrived.
type arrivalKey struct{}

// tap is called with the headers of each call, before gRPC keeps anything of it. It must not block.
func (a *arrivals) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	host := hostOf(ctx)
	if !a.counts.enter(host) {
		if _, timed := ctx.Deadline(); timed {
			connectionOf(ctx).keep()
		}
		return nil, status.Error(codes.Unavailable, "too many calls wait for their requests; try again in a second")
	}
	arrived := sync.OnceFunc(func() { a.counts.leave(host) })
	context.AfterFunc(ctx, arrived)
	return context.WithValue(ctx, arrivalKey{}, arrived), nil
}

// arriving is a call whose request has not arrived.
type arriving struct {
	grpc.ServerStream
	timeout time.Duration
	arrived func()
}

// received returns a call that receives its request within the time limit.
func (a *arrivals) received(stream grpc.ServerStream) grpc.ServerStream {
	arrived, ok := stream.Context().Value(arrivalKey{}).(func())
	if !ok {
		return stream
	}
	return &arriving{ServerStream: stream, timeout: a.timeout, arrived: arrived}
}

// RecvMsg implements grpc.ServerStream. Flight's calls that this version serves have one request.
func (s *arriving) RecvMsg(m any) error {
	result := make(chan error, 1)
	go func() { result <- s.ServerStream.RecvMsg(m) }() // it ends with the call
	timeout := time.NewTimer(s.timeout)
	defer timeout.Stop()
	select {
	case err := <-result:
		s.arrived()
		if slot, ok := s.Context().Value(planSlotKey{}).(*planSlot); ok {
			if sized, ok := m.(proto.Message); ok {
				slot.bytes = int64(proto.Size(sized))
			}
		}
		return err
	case <-timeout.C:
		return fault.New(fault.Invalid, "the request did not arrive within %s", s.timeout).WithRemedy("call again")
	}
}

// answered returns the description of a service whose methods with one answer are described as streams. gRPC receives the
// request of such a method before any interceptor; of a stream, the handler receives it. Clients see no difference.
func answered(of grpc.ServiceDesc) *grpc.ServiceDesc {
	streams := append([]grpc.StreamDesc{}, of.Streams...)
	for _, m := range of.Methods {
		streams = append(streams, grpc.StreamDesc{StreamName: m.MethodName, ServerStreams: true, Handler: answerOnce(m)})
	}
	of.Methods, of.Streams = nil, streams
	return &of
}

// answerOnce returns the handler of a method with one answer.
func answerOnce(m grpc.MethodDesc) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		answer, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}
