package inbound

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/internal/fault"
)

// arriving receives the request of a call within the time limit.
type arriving struct {
	grpc.ServerStream
	arrivals *arrivals
	arrival  *Arrival
	size     func(bytes int) // is called with the size of the request
	received bool            // the request has arrived; more messages may follow
}

// limitedMessage is a message that is not read if it has more than MaxRequest bytes.
type limitedMessage struct {
	message any
	size    int // bytes
}

// Unmarshal reads the message.
func (m *limitedMessage) Unmarshal(parts mem.BufferSlice) error {
	if m.size = parts.Len(); m.size > MaxRequest {
		return nil
	}
	return frames.NewCodec().Unmarshal(parts, m.message)
}

// RecvMsg implements grpc.ServerStream. Of the messages of DoPut, the first one is the request. A call that ends early is not
// cancelled: gRPC would send its own status.
func (s *arriving) RecvMsg(m any) error {
	if s.received {
		return s.ServerStream.RecvMsg(m)
	}
	result := make(chan error, 1)
	limited := &limitedMessage{message: m}
	go func() { result <- s.ServerStream.RecvMsg(limited) }() // it ends with the call
	timeout := time.NewTimer(s.arrivals.timeout)
	defer timeout.Stop()
	select {
	case err := <-result:
		s.arrivals.leave(s.arrival)
		if err == nil && limited.size > MaxRequest {
			return status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than %d", limited.size, MaxRequest)
		}
		if err == nil {
			s.received = true
			s.use(limited.size)
		}
		return err
	case err := <-s.arrival.end:
		return err
	case <-timeout.C:
		return fault.New(fault.Invalid, "the request did not arrive within %s", s.arrivals.timeout).WithRemedy("call again")
	}
}

// use counts the call among the calls of its connection, until done is called.
func (s *arriving) use(bytes int) {
	s.size(bytes)
	if conn := s.arrival.conn; conn != nil {
		conn.calls.Add(1)
	}
}

// done ends the use of a call.
func (s *arriving) done() {
	if conn := s.arrival.conn; conn != nil && s.received {
		conn.calls.Add(-1)
	}
}

// Streams returns the description of a service whose methods with one answer are described as streams. gRPC receives the
// request of such a method before any interceptor; of a stream, the handler receives it. Clients see no difference.
func Streams(of grpc.ServiceDesc) *grpc.ServiceDesc {
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
