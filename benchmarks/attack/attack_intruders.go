package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/rawclient"
)

const (
	// manyHosts is the number of the intruders' addresses when they use several.
	manyHosts = 200
	// intruded is the time for which a stream is read alone, and then beside intruders.
	intruded = 1500 * time.Millisecond
	// settling is the time that intruders get to start, which also uses this machine's processors.
	settling = 1500 * time.Millisecond
	// minBeside is the lowest speed of a stream beside intruders, relative to its speed alone.
	minBeside = 0.5
)

// intrusion is an attack that needs no right to read anything.
type intrusion struct {
	connections int
	// harm attacks over one connection until the context ends or the connection breaks. Then it
	// gets a new connection.
	harm func(ctx context.Context, c *rawclient.Conn) error
	// raw does the same before HTTP/2 begins, instead of harm.
	raw func(ctx context.Context, conn net.Conn) error
	// guard returns the settings of a server with TLS and tokens; nil for a server without.
	guard func(folder string) (launch, error)
}

// hold keeps a connection without reading it.
func hold(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// repeat calls a function until the context ends, with pauses.
func repeat(ctx context.Context, pause time.Duration, do func() error) error {
	for ctx.Err() == nil {
		if err := do(); err != nil {
			return err
		}
		wait(ctx, pause)
	}
	return nil
}

// headers: calls whose long header is repeated by references to HPACK's table.
func (r *run) intrudeHeaders(ctx context.Context) error {
	fields := rawclient.Indexed(nil, rawclient.Header{Name: "x-long", Value: strings.Repeat("x", 3900)})
	fields = append(fields, []byte(strings.Repeat("\xbe", 4000))...)
	return r.intrude(ctx, intrusion{connections: 40, harm: func(ctx context.Context, c *rawclient.Conn) error {
		stream := uint32(1)
		return repeat(ctx, 20*time.Millisecond, func() error {
			opening := rawclient.Opening(stream, "GetFlightInfo")
			_, err := c.Write(rawclient.Headers(stream, append(opening[9:], fields...)))
			stream += 2
			return err
		})
	}})
}

// half: requests whose last byte never arrives.
func (r *run) intrudeHalf(ctx context.Context) error {
	const size = 2 << 20
	return r.intrude(ctx, intrusion{connections: 150, harm: func(ctx context.Context, c *rawclient.Conn) error {
		stream, err := c.Open("DoAction")
		if err != nil {
			return err
		}
		if err := c.Begin(stream, size, 0); err != nil {
			return err
		}
		if err := c.AwaitWindow(stream); err != nil {
			return err
		}
		if err := c.More(stream, size-1); err != nil {
			return err
		}
		_, err = c.AwaitReset()
		return err
	}})
}

// open: calls without requests, as many as a connection may have.
func (r *run) intrudeOpen(ctx context.Context) error {
	return r.intrude(ctx, intrusion{connections: 800, harm: func(ctx context.Context, c *rawclient.Conn) error {
		var opening []byte
		for i := range 125 {
			opening = append(opening, rawclient.Opening(uint32(2*i+1), "GetFlightInfo")...)
		}
		if _, err := c.Write(opening); err != nil {
			return err
		}
		return hold(ctx)
	}})
}

// slow: requests that arrive byte by byte.
func (r *run) intrudeSlow(ctx context.Context) error {
	return r.intrude(ctx, intrusion{connections: 400, harm: func(ctx context.Context, c *rawclient.Conn) error {
		for range 8 {
			stream, err := c.Open("GetFlightInfo")
			if err != nil {
				return err
			}
			if err := c.Begin(stream, 1<<20, 1); err != nil {
				return err
			}
		}
		return repeat(ctx, time.Second, func() error { return c.More(1, 1) })
	}})
}

// resets: calls that are opened and immediately reset.
func (r *run) intrudeResets(ctx context.Context) error {
	return r.intrude(ctx, intrusion{connections: 20, harm: func(ctx context.Context, c *rawclient.Conn) error {
		return repeat(ctx, 20*time.Millisecond, func() error {
			stream, err := c.Open("GetFlightInfo")
			if err != nil {
				return err
			}
			return c.Reset(stream)
		})
	}})
}

// idle: connections that send nothing after their first bytes.
func (r *run) intrudeIdle(ctx context.Context) error {
	return r.intrude(ctx, intrusion{connections: 1600, harm: func(ctx context.Context, c *rawclient.Conn) error {
		_, err := c.AwaitReset() // there is no call: this is the end of the connection
		return err
	}})
}

// tickets: plans with many tickets; their answers are not read.
func (r *run) intrudeTickets(ctx context.Context) error {
	return r.unread(ctx, "GetFlightInfo", 100, func(string) ([]byte, error) {
		return proto.Marshal(described(`{"dataset":"t","lanes":1024,"shard":{"of":1024}}`))
	})
}

// errors: calls that fail; their status is not read.
func (r *run) intrudeErrors(ctx context.Context) error {
	return r.unread(ctx, "GetFlightInfo", 300, func(string) ([]byte, error) {
		return proto.Marshal(described(`{"dataset":"` + strings.Repeat("x", 4000) + `"}`))
	})
}

func described(query string) *arrowflight.FlightDescriptor {
	return &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(query)}
}

// renew: renewals of endpoints with much metadata; their answers are not read.
func (r *run) intrudeRenew(ctx context.Context) error {
	return r.unread(ctx, "DoAction", 150, func(address string) ([]byte, error) {
		c, err := dial(address, dialing{from: hostile})
		if err != nil {
			return nil, err
		}
		defer c.close()
		p, err := c.plan(ctx, query{Dataset: "t"})
		if err != nil {
			return nil, err
		}
		endpoint := &arrowflight.FlightEndpoint{Ticket: &arrowflight.Ticket{Ticket: p.tickets[0]}, AppMetadata: make([]byte, 200_000)}
		body, err := proto.Marshal(&arrowflight.RenewFlightEndpointRequest{Endpoint: endpoint})
		if err != nil {
			return nil, err
		}
		return proto.Marshal(&arrowflight.Action{Type: arrowflight.RenewFlightEndpointActionType, Body: body})
	})
}

// unread makes calls and does not read their answers, ten on each connection.
func (r *run) unread(ctx context.Context, method string, connections int, request func(address string) ([]byte, error)) error {
	var mu sync.Mutex
	made := map[string][]byte{}
	return r.intrude(ctx, intrusion{connections: connections, harm: func(ctx context.Context, c *rawclient.Conn) error {
		address := c.RemoteAddr().String()
		mu.Lock()
		message, err := made[address], error(nil)
		if message == nil {
			if message, err = request(address); err == nil {
				made[address] = message
			}
		}
		mu.Unlock()
		if err != nil {
			return err
		}
		for range 10 {
			stream, err := c.Open(method)
			if err != nil {
				return err
			}
			if err := c.Request(stream, message); err != nil {
				return err
			}
			if wait(ctx, 100*time.Millisecond); ctx.Err() != nil {
				return nil
			}
		}
		return hold(ctx)
	}})
}

// plans: concurrent, different plans, one on each connection.
func (r *run) intrudePlans(ctx context.Context) error {
	var mu sync.Mutex
	count := 0
	return r.intrude(ctx, intrusion{connections: 200, harm: func(ctx context.Context, c *rawclient.Conn) error {
		mu.Lock()
		count++
		q, err := json.Marshal(query{Dataset: "many", Filter: fmt.Sprintf("n0 <> %d", count)})
		mu.Unlock()
		if err != nil {
			return err
		}
		message, err := proto.Marshal(described(string(q)))
		if err != nil {
			return err
		}
		stream, err := c.Open("GetFlightInfo")
		if err != nil {
			return err
		}
		if err := c.Request(stream, message); err != nil {
			return err
		}
		_, err = c.AwaitEnd()
		return err
	}})
}

// intrude attacks from one host and from many. It checks the server's memory and the streams of
// other clients.
func (r *run) intrude(ctx context.Context, how intrusion) error {
	of := launch{}
	if how.guard != nil {
		var err error
		if of, err = how.guard(r.scratch); err != nil {
			return err
		}
	}
	of.home, of.budget = r.home, 256*mebi
	return r.against(ctx, of, func(ctx context.Context, s *server) error {
		ctx, cancel := r.sure(ctx)
		defer cancel()
		if _, err := r.speed(ctx, s); err != nil { // files and plans are known from here on
			return err
		}
		for _, hosts := range []int{1, manyHosts} {
			if err := r.beside(ctx, s, how, hosts); err != nil {
				return err
			}
		}
		return nil
	})
}

// beside reads a stream, first alone, and then while a number of hosts attack.
func (r *run) beside(ctx context.Context, s *server, how intrusion, hosts int) error {
	steady, err := r.steadily(ctx, s)
	if err != nil {
		return err
	}
	defer steady.stop()
	alone := steady.during(ctx, intruded)
	harmed, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range how.connections {
		from := net.IPv4(127, 0, 1, byte(1+i%hosts))
		all.Go(func() { how.from(harmed, s.address, from) })
	}
	defer all.Wait()
	defer stop()
	of := fmt.Sprintf("of %d hosts", hosts)
	if hosts == 1 {
		of = "of one host"
	}
	wait(ctx, settling)
	beside := steady.during(ctx, intruded)
	most := 2 * time.Second
	if r.untimed {
		most = r.patience
	}
	planned, took, err := r.first(ctx, s)
	if err != nil {
		r.check(s, "a new stream beside those "+of, err.Error(), "it begins", false)
		return nil
	}
	r.check(s, "a new stream beside those "+of, fmt.Sprintf("begins in %.2f s, %.2f s of it its plan", took.Seconds(), planned.Seconds()), fmt.Sprintf("at most %s", most), took <= most)
	if err := steady.failed(); err != nil {
		r.check(s, "a stream beside those "+of, err.Error(), "it continues", false)
		return nil
	}
	if !r.untimed {
		r.check(s, "speed beside those "+of, fmt.Sprintf("%.2f of %.0f MB/s alone", beside/alone, alone/1e6), fmt.Sprintf("at least %.1f", minBeside), beside >= minBeside*alone)
	}
	return nil
}

// steady is a client that reads one stream after another.
type steady struct {
	bytes atomic.Int64
	stop  context.CancelFunc
	err   chan error // why it has ended
}

// steadily reads streams until stop.
func (r *run) steadily(ctx context.Context, s *server) (*steady, error) {
	c, err := dial(s.address, dialing{from: peaceful, as: s.as})
	if err != nil {
		return nil, err
	}
	p, err := c.plan(ctx, query{Dataset: "wide", BatchRows: 1024})
	if err != nil {
		c.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	out := &steady{stop: stop, err: make(chan error, 1)}
	go func() {
		defer c.close()
		for ctx.Err() == nil {
			if err := out.read(ctx, c, p.tickets[0]); err != nil {
				out.err <- err
				return
			}
		}
	}()
	return out, nil
}

// read reads a stream to its end.
func (p *steady) read(ctx context.Context, c *client, ticket []byte) error {
	rows, err := c.open(ctx, ticket)
	if err != nil {
		return err
	}
	defer rows.close()
	for {
		before := rows.bytes
		err := rows.skip(1)
		p.bytes.Add(rows.bytes - before)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// during returns the bytes per second that are read during a time.
func (p *steady) during(ctx context.Context, some time.Duration) float64 {
	begun, before := time.Now(), p.bytes.Load()
	wait(ctx, some)
	return float64(p.bytes.Load()-before) / time.Since(begun).Seconds()
}

// failed returns the client's error.
func (p *steady) failed() error {
	select {
	case err := <-p.err:
		return err
	default:
		return nil
	}
}

// from attacks over one connection after another.
func (how intrusion) from(ctx context.Context, address string, host net.IP) {
	const pause = 4 * time.Second // an intruder that only uses the processor is not meant
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: host}}
	_ = repeat(ctx, pause, func() error {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil //nolint:nilerr // the server may refuse it, and is asked again
		}
		defer conn.Close()                                          //nolint:errcheck // the server may have closed it
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends reads and writes
		if how.raw != nil {
			_ = how.raw(ctx, conn) // the server may end it at any time
		} else if c, err := rawclient.New(conn); err == nil {
			_ = how.harm(ctx, c) // the server may end it at any time
		}
		return nil
	})
}

// first reads the first batch as a new client. It returns the time of the plan, and of the whole.
func (r *run) first(ctx context.Context, s *server) (planned, took time.Duration, err error) {
	begun := time.Now()
	c, err := dial(s.address, dialing{from: peaceful, as: s.as})
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	p, err := c.plan(ctx, query{Dataset: "t"})
	if err != nil {
		return 0, 0, err
	}
	planned = time.Since(begun)
	rows, err := c.open(ctx, p.tickets[0])
	if err != nil {
		return 0, 0, err
	}
	defer rows.close()
	err = rows.skip(1)
	return planned, time.Since(begun), err
}
