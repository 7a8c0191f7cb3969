package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/damage"
)

const (
	// dryPut is a command that writes nothing.
	dryPut = `{"stage": {"table": "bench.mutated", "key": ["` + keyName + `"], "buckets": 4, "dry_run": true}}`
	// putClients is the number of connections that send damaged messages: the slots of a server
	// with 256 MiB.
	putClients = 4
	putRows    = 3
	// besideMutations is the time for which a stream is read beside them.
	besideMutations = 10 * time.Second
)

// mutatePut: calls that write rows, each with one message whose structure, sizes or compression are damaged.
func (r *run) mutatePut(ctx context.Context) error {
	home, err := r.writable()
	if err != nil {
		return err
	}
	forms, err := putForms()
	if err != nil {
		return err
	}
	return r.against(ctx, launch{home: home, budget: 256 * mebi}, func(ctx context.Context, s *server) error {
		if _, err := r.speed(ctx, s); err != nil { // files and plans are known from here on
			return err
		}
		steady, err := r.steadily(ctx, s)
		if err != nil {
			return err
		}
		defer steady.stop()
		alone := steady.during(ctx, intruded)
		all := &mutations{left: int64(r.mutations), forms: forms}
		begun, sent := time.Now(), make(chan struct{})
		go func() {
			defer close(sent)
			all.send(ctx, s)
		}()
		beside := steady.during(ctx, besideMutations)
		failed := steady.failed()
		steady.stop() // the rest takes minutes, and longer beside a stream that takes all of a processor
		<-sent
		took := time.Since(begun)
		r.check(s, "damaged messages", fmt.Sprintf("%d in %.0f s, %d of them refused, %d read", r.mutations, took.Seconds(), all.refused.Load(), all.read.Load()),
			"no failure but the client's", all.failure == nil && all.refused.Load()+all.read.Load() == int64(r.mutations))
		if all.failure != nil {
			return all.failure
		}
		if failed != nil {
			r.check(s, "a stream beside those", failed.Error(), "it continues", false)
		} else if !r.untimed {
			r.check(s, "speed beside those", fmt.Sprintf("%.2f of %.0f MB/s alone", beside/alone, alone/1e6), fmt.Sprintf("at least %.1f", minBeside), beside >= minBeside*alone)
		}
		last := &mutations{forms: forms}
		c, err := dial(s.address, dialing{from: hostile})
		if err != nil {
			return err
		}
		defer c.close()
		err = last.put(ctx, c, forms[0])
		figure := "it is read"
		if err != nil {
			figure = err.Error()
		}
		r.check(s, "a whole message after those", figure, "it is read", err == nil)
		return nil
	})
}

// writable returns a folder with the configuration of the tables, whose catalog allows writes.
func (r *run) writable() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.home, "penstock.yaml"))
	if err != nil {
		return "", err
	}
	home, err := r.folder("writable")
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(text), "    type: sql\n", "    type: sql\n    writes: {namespaces: [bench]}\n", 1)
	return home, os.WriteFile(filepath.Join(home, "penstock.yaml"), []byte(changed), 0o600)
}

// mutations are damaged messages for clients to send.
type mutations struct {
	forms         [][]damage.Message
	left          int64
	refused, read atomic.Int64
	mu            sync.Mutex
	failure       error // of the server
}

// send sends all of them.
func (m *mutations) send(ctx context.Context, s *server) {
	var all sync.WaitGroup
	left := atomic.Int64{}
	left.Store(m.left)
	for i := range putClients {
		all.Go(func() {
			c, err := dial(s.address, dialing{from: hostile})
			if err != nil {
				m.fail(err)
				return
			}
			defer c.close()
			random := rand.New(rand.NewPCG(51, uint64(i))) //nolint:gosec // not a secret
			for left.Add(-1) >= 0 && m.failed() == nil {
				m.one(ctx, c, random)
			}
		})
	}
	all.Wait()
}

// one sends one damaged message, and repeats the call if the server has no room for it.
func (m *mutations) one(ctx context.Context, c *client, random *rand.Rand) {
	messages := append([]damage.Message{}, m.forms[random.IntN(len(m.forms))]...)
	at := random.IntN(len(messages))
	messages[at] = messages[at].Clone()
	damage.Change(messages[at], random.IntN)
	for ctx.Err() == nil {
		err := m.put(ctx, c, messages)
		switch status.Code(err) {
		case codes.OK:
			m.read.Add(1)
			return
		case codes.InvalidArgument, codes.DataLoss:
			m.refused.Add(1)
			return
		case codes.ResourceExhausted:
			if strings.Contains(err.Error(), "slots") {
				wait(ctx, 10*time.Millisecond)
				continue
			}
			m.refused.Add(1)
			return
		}
		m.fail(err)
		return
	}
	m.fail(ctx.Err())
}

func (m *mutations) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = errors.Join(m.failure, err)
}

func (m *mutations) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// put makes one call with messages.
func (*mutations) put(ctx context.Context, c *client, messages []damage.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.flight.DoPut(ctx)
	if err != nil {
		return err
	}
	for i, one := range messages {
		message := &arrowflight.FlightData{DataHeader: one.Header, DataBody: one.Body}
		if i == 0 {
			message.FlightDescriptor = described(dryPut)
		}
		if err := stream.Send(message); err != nil {
			break // the call has ended: its error comes with the answer
		}
	}
	_ = stream.Send(&arrowflight.FlightData{AppMetadata: fmt.Appendf(nil, `{"rows": %d}`, putRows)}) // as above
	_ = stream.CloseSend()
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// putForms returns the messages of a batch: with each compression, of columns with one buffer, several and none.
func putForms() ([][]damage.Message, error) {
	texts := arrow.BinaryTypes.String
	schema := arrow.NewSchema([]arrow.Field{
		{Name: keyName, Type: arrow.PrimitiveTypes.Int64},
		{Name: "code", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: texts}, Nullable: true},
		{Name: "list", Type: arrow.ListOf(texts), Nullable: true},
		{Name: "view", Type: arrow.BinaryTypes.StringView, Nullable: true},
		{Name: "yes", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
	long := strings.Repeat("x", 4096)
	b, _, err := array.RecordFromJSON(arrowmemory.DefaultAllocator, schema, strings.NewReader(`[
		{"`+keyName+`": 1, "code": "a", "list": ["x", null, "`+long+`"], "view": "a text that is longer than twelve", "yes": true},
		{"`+keyName+`": 2, "code": null, "list": [], "view": "short", "yes": null},
		{"`+keyName+`": 3, "code": "b", "list": null, "view": null, "yes": false}
	]`))
	if err != nil {
		return nil, err
	}
	defer b.Release()
	var out [][]damage.Message
	for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}} {
		sent := &sentMessages{}
		if err := arrowflight.NewRecordWriter(sent, append(options, ipc.WithSchema(schema))...).Write(b); err != nil {
			return nil, err
		}
		out = append(out, *sent)
	}
	return out, nil
}

// sentMessages collects the messages of a writer.
type sentMessages []damage.Message

// Send implements arrowflight.DataStreamWriter.
func (s *sentMessages) Send(m *arrowflight.FlightData) error {
	*s = append(*s, damage.Message{Header: m.GetDataHeader(), Body: m.GetDataBody()}.Clone())
	return nil
}
