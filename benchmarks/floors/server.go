package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/ticket"
)

// sizes are the sizes of what is delivered.
type sizes struct {
	batches  int // of a stream
	rows     int // of a batch
	distinct int // batches; a stream repeats them
}

// server has ready batches, and delivers them in all ways.
type server struct {
	sizes
	forms    map[string]ready
	lying    map[string]*mapped // the ready batches as mapped memory
	expected map[string]totals  // by form; none for batches of files, whose reader knows them
	// copies has as much memory as a stream of copied batches that are mapped.
	copies [slots][]byte
}

// offer is the first line of a server's output.
type offer struct {
	Addresses map[string]string `json:"addresses"` // by way
	Expected  map[string]totals `json:"expected"`  // by form
}

// drawnServer returns a server of batches of T's shape.
func drawnServer(s sizes) (*server, error) {
	forms, err := draw(s.distinct, s.rows, 7)
	if err != nil {
		return nil, err
	}
	one, err := newServer(s, forms)
	if err != nil {
		return nil, err
	}
	for name, form := range forms {
		if one.expected[name], err = form.total(s.batches); err != nil {
			return nil, err
		}
	}
	return one, nil
}

func newServer(s sizes, forms map[string]ready) (one *server, err error) {
	one = &server{sizes: s, forms: forms, lying: map[string]*mapped{}, expected: map[string]totals{}}
	for name, form := range forms {
		if one.lying[name], err = lie(form); err != nil {
			return nil, err
		}
	}
	return one, nil
}

// serve serves all ways, with sockets in a folder, until its input ends.
func (s *server) serve(ctx context.Context, folder string, in io.Reader, out io.Writer) error {
	offered := offer{Addresses: map[string]string{}, Expected: s.expected}
	failed := make(chan error, len(ways()))
	for i, w := range ways() {
		if w.network == "" {
			continue
		}
		l, err := s.listen(ctx, w, filepath.Join(folder, fmt.Sprintf("%d.sock", i)))
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // the process ends
		offered.Addresses[w.name] = strings.TrimPrefix(l.Addr().String(), "unix://")
		serving, err := s.serving(w) //nolint:contextcheck // calls have their own contexts
		if err != nil {
			return err
		}
		go func() { failed <- serving(l) }()
	}
	if err := json.NewEncoder(out).Encode(offered); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() { answered <- answer(in, out, s.pass) }()
	select {
	case err := <-answered:
		return err
	case err := <-failed:
		return err
	}
}

// listen listens for a way. The path is used for Unix sockets.
func (s *server) listen(ctx context.Context, w way, path string) (l net.Listener, err error) {
	switch {
	case w.network == "tcp":
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	case w.socket == systemBuffer:
		l, err = (&net.ListenConfig{}).Listen(ctx, "unix", path)
	default:
		l, err = socket.Listen(ctx, socket.Streams, path)
	}
	if err == nil && w.socket > 0 {
		l = buffered{l, w.socket}
	}
	return l, err
}

// buffered sets the size of the send buffers of the connections that it accepts.
type buffered struct {
	net.Listener
	bytes int
}

// Accept implements net.Listener.
func (b buffered) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if sized, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		err = sized.SetWriteBuffer(b.bytes)
	}
	return c, err
}

// serving returns what serves a way on a listener.
func (s *server) serving(w way) (func(net.Listener) error, error) {
	if w.kind != overGRPC {
		return func(l net.Listener) error { return s.accept(l, w) }, nil
	}
	keys, err := ticket.RandomKeys(rand.Reader)
	if err != nil {
		return nil, err
	}
	options := flight.Options{Loader: readyLoader{s.forms, s.batches}, Keys: func() *ticket.Keys { return keys }, Clock: time.Now}
	if w.wide {
		options.WriteBuffer = wideBuffer
	}
	return flight.New(options).Serve, nil
}

// accept answers each connection, which names a form in its first line.
func (s *server) accept(l net.Listener, w way) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close() //nolint:errcheck // the client sees a stream that is cut
			if err := s.deliver(c, w); err != nil {
				fmt.Fprintln(os.Stderr, "floors:", w.name, err)
			}
		}()
	}
}

func (s *server) deliver(c net.Conn, w way) error {
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		return err
	}
	name := strings.TrimSpace(line)
	form := s.forms[name]
	if form.schema == nil {
		return fmt.Errorf("no form %q", name)
	}
	if w.kind == byMapping {
		return s.passMemory(c, w, name)
	}
	var parts collected
	writer := newStreamWriter(form.schema, parts.add)
	for i := range s.batches {
		if err := writer.batch(form.at(i)); err != nil {
			return err
		}
		if err := parts.writeTo(c); err != nil {
			return err
		}
	}
	return nil
}

// pass answers a request of this process: its CPU time and context switches so far, or a way within the process.
func (s *server) pass(r request) (pass, error) {
	for _, w := range ways() {
		if w.name == r.Way && w.network == "" {
			return measured(func(p *pass) error { return s.within(p, w, s.forms[r.Form]) })
		}
	}
	return soFar(), nil
}

// within delivers batches within this process.
func (s *server) within(p *pass, w way, form ready) (err error) {
	c := consumer{sum: w.sum}
	for i := range s.batches {
		b := form.at(i)
		if w.kind == inPlace {
			if err := c.add(b); err != nil {
				return err
			}
			continue
		}
		c.Rows += b.NumRows()
		at := &s.copies[i%slots]
		*at = (*at)[:0]
		writer := newStreamWriter(form.schema, func(part []byte) { *at = append(*at, part...) })
		if err := writer.batch(b); err != nil {
			return err
		}
		p.Bytes += int64(len(*at))
	}
	p.totals = c.totals
	return nil
}
