package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// client reads streams in all ways. Its connections to Flight servers stay open between passes.
type client struct{ open map[string]*grpc.ClientConn }

func newClient() *client { return &client{open: map[string]*grpc.ClientConn{}} }

// pass answers a request.
func (c *client) pass(r request) (pass, error) {
	i := slices.IndexFunc(ways(), func(w way) bool { return w.name == r.Way })
	if i < 0 {
		return pass{}, fmt.Errorf("no way %q", r.Way)
	}
	return measured(func(p *pass) error {
		to := &consumer{sum: r.Sum}
		err := c.read(p, to, ways()[i], r)
		p.totals = to.totals
		return err
	})
}

func (c *client) read(p *pass, to *consumer, w way, r request) (err error) {
	ctx := context.Background()
	if w.kind == overGRPC {
		return c.get(ctx, p, to, w, r)
	}
	conn, err := connect(ctx, w, r.Address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := fmt.Fprintln(conn, r.Form); err != nil {
		return err
	}
	if w.kind == byMapping {
		from, ok := conn.(*net.UnixConn)
		if !ok {
			return fmt.Errorf("a connection of type %T passes no memory", conn)
		}
		return readMapped(from, p, to)
	}
	return to.all(ipc.NewReaderFromMessageReader(overStream(conn, &p.Bytes)))
}

// connect connects to a way's address.
func connect(ctx context.Context, w way, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, w.network, address)
	if err != nil {
		return nil, err
	}
	if sized, ok := c.(*net.TCPConn); ok && w.socket > 0 {
		err = sized.SetReadBuffer(w.socket)
	}
	return c, err
}

// kept is the number of messages that a reader may use at the same time: a batch and its
// dictionaries, and the next one.
const kept = 4

// buffers are reused in turn, as a consumer does that is done with a batch before it reads the next.
type buffers struct {
	all  [kept][]byte
	next int
}

// get returns a buffer, whose contents are not defined.
func (b *buffers) get(n int) []byte {
	at := b.next % kept
	b.next++
	if cap(b.all[at]) < n {
		b.all[at] = make([]byte, n)
	}
	return b.all[at][:n]
}

// overStream returns the messages of an IPC stream, and counts their bytes.
func overStream(conn io.Reader, count *int64) messages {
	from := bufio.NewReaderSize(conn, 64<<10)
	var reused buffers
	head := make([]byte, prefix)
	return messages{func() (header, body []byte, err error) {
		if _, err := io.ReadFull(from, head); err != nil {
			return nil, nil, err
		}
		header = make([]byte, binary.LittleEndian.Uint32(head[4:]))
		if _, err := io.ReadFull(from, header); err != nil {
			return nil, nil, errors.Join(errCut, err)
		}
		of := ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(nil))
		defer of.Release()
		body = reused.get(int(of.BodyLen()))
		if _, err := io.ReadFull(from, body); err != nil {
			return nil, nil, errors.Join(errCut, err)
		}
		*count += int64(prefix + len(header) + len(body))
		return header, body, nil
	}}
}

// get reads a form by Flight.
func (c *client) get(ctx context.Context, p *pass, to *consumer, w way, r request) error {
	conn, err := c.connection(w, r.Address)
	if err != nil {
		return err
	}
	query := fmt.Appendf(nil, `{"dataset": %q}`, r.Form)
	found, err := arrowflight.NewFlightServiceClient(conn).GetFlightInfo(ctx, &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: query})
	if err != nil {
		return err
	}
	for _, e := range found.GetEndpoint() {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/arrow.flight.protocol.FlightService/DoGet", grpc.ForceCodecV2(codec{encoding.GetCodecV2(proto.Name)}))
		if err != nil {
			return err
		}
		if err := errors.Join(stream.SendMsg(e.GetTicket()), stream.CloseSend()); err != nil {
			return err
		}
		from := &received{}
		if err := to.all(ipc.NewReaderFromMessageReader(from.messages(stream, &p.Bytes))); err != nil {
			return err
		}
		if err := from.check(to.Rows); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) connection(w way, address string) (*grpc.ClientConn, error) {
	if conn := c.open[w.name]; conn != nil {
		return conn, nil
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return connect(ctx, w, address) }),
	}
	if w.wide {
		options = append(options, grpc.WithReadBufferSize(wideBuffer), grpc.WithInitialWindowSize(wideWindow), grpc.WithInitialConnWindowSize(wideWindow))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err == nil {
		c.open[w.name] = conn
	}
	return conn, err
}

// received is a message of a Flight stream. Its memory is reused.
type received struct {
	buffers

	header, metadata, body []byte
}

// messages returns the messages of a stream, and counts their bytes. After the last one, which has
// no header, metadata is the report.
func (r *received) messages(from grpc.ClientStream, count *int64) messages {
	return messages{func() (header, body []byte, err error) {
		for {
			if err := from.RecvMsg(r); err != nil {
				return nil, nil, err
			}
			if len(r.header) > 0 {
				*count += int64(len(r.header) + len(r.body))
				return r.header, r.body, nil
			}
		}
	}}
}

// check compares the number of rows with that of the report.
func (r *received) check(rows int64) error {
	var last struct {
		Report *struct {
			Rows int64 `json:"rows"`
		} `json:"report"`
	}
	if err := json.Unmarshal(r.metadata, &last); err != nil {
		return err
	}
	if last.Report == nil || last.Report.Rows != rows {
		return fmt.Errorf("%d rows were received; the report is %s", rows, r.metadata)
	}
	return nil
}

// codec is gRPC's protobuf codec, except that received messages are copied once instead of twice.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(from mem.BufferSlice, to any) error {
	r, ok := to.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(from, to)
	}
	all := r.get(from.Len())
	from.CopyTo(all)
	return r.parse(all)
}

// The fields of a FlightData message (Flight.proto).
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// parse splits a FlightData message into its fields.
func (r *received) parse(all []byte) error {
	r.header, r.metadata, r.body = nil, nil, nil
	for len(all) > 0 {
		number, kind, n := protowire.ConsumeTag(all)
		if n < 0 {
			return protowire.ParseError(n)
		}
		all = all[n:]
		if kind != protowire.BytesType {
			return fmt.Errorf("field %d of FlightData has wire type %d", number, kind)
		}
		value, n := protowire.ConsumeBytes(all)
		if n < 0 {
			return protowire.ParseError(n)
		}
		all = all[n:]
		switch number {
		case fieldHeader:
			r.header = value
		case fieldMetadata:
			r.metadata = value
		case fieldBody:
			r.body = value
		}
	}
	return nil
}
