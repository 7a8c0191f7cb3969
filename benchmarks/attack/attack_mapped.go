package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/segment/segmenttest"
)

// freed is the time within which a server must free the memory of disconnected clients.
const freed = time.Second

// mapped: beside streams that read, clients of the local socket keep all batches, read none, send
// invalid records, or send nothing. Batches that clients keep must not change.
func (r *run) mapped(ctx context.Context) error {
	want, err := r.reference(ctx, r.home, query{Dataset: "t"}, 0)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "attack") // whose path is short enough for a socket
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // of an attack
	for i, budget := range r.budgets {
		path := filepath.Join(folder, strconv.Itoa(i), "local.sock")
		l := launch{home: r.home, budget: budget, env: []string{"PENSTOCK_LOCAL_SOCKET=" + path}}
		err := r.against(ctx, l, func(ctx context.Context, s *server) error {
			ctx, cancel := r.sure(ctx)
			defer cancel()
			return r.hoard(ctx, s, path, want)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hoard starts clients of the local socket that try to harm a server, and checks that other
// streams continue.
func (r *run) hoard(ctx context.Context, s *server, path string, want *digest) error {
	const keepers, silent, mad, idle = 4, 12, 12, 200
	hoards := make([]*hoarder, keepers+silent+mad)
	err := together(len(hoards), func(i int) (err error) {
		hoards[i], err = newHoarder(ctx, s.address, path)
		if err != nil {
			return err
		}
		switch {
		case i < keepers:
			err := hoards[i].keep()
			if isKind(err, "exhausted") {
				return nil // there are more streams than slots
			}
			return err
		case i < keepers+silent:
			return nil // its stream waits
		default:
			return hoards[i].rave()
		}
	})
	r.verdict(s, "clients that keep what they get read all rows", err)
	var idlers []net.Conn
	for range idle {
		conn, err := localtest.Dial(path)
		if err != nil {
			break
		}
		idlers = append(idlers, conn)
	}
	c, err := dial(s.address, dialing{})
	if err != nil {
		return err
	}
	defer c.close()
	got, err := read(ctx, reading{query: query{Dataset: "t"}, where: func() *client { return c }, again: s.again, pause: time.Second})
	if err == nil {
		err = same(&got.digest, want)
	}
	r.verdict(s, "a stream beside them", err)
	changed, kept := 0, 0
	for _, h := range hoards {
		if h != nil {
			kept += len(h.kept)
			changed += h.changed()
			h.close()
		}
	}
	for _, each := range idlers {
		_ = each.Close()
	}
	r.check(s, "batches that are kept do not change", fmt.Sprintf("%d of %d changed", changed, kept), "0, of some", changed == 0 && kept > 0)
	began := time.Now()
	lent, err := s.lent(ctx)
	for err == nil && lent > 0 && time.Since(began) < freed {
		wait(ctx, watched)
		lent, err = s.lent(ctx)
	}
	r.check(s, "their memory is free when they are gone", sized(lent), "0 after "+freed.String(), err == nil && lent == 0)
	return err
}

// hoarder is a client of the local socket with a stream.
type hoarder struct {
	*client
	session *localtest.SessionClient
	stream  *stream
	kept    []*segmenttest.Received
	sums    [][sha256.Size]byte // of kept
}

// newHoarder begins a stream in a session.
func newHoarder(ctx context.Context, address, path string) (h *hoarder, err error) {
	h = &hoarder{}
	if h.client, err = dial(address, dialing{}); err != nil {
		return nil, err
	}
	if h.session, err = localtest.Open(path); err != nil {
		return nil, err
	}
	p, err := h.plan(ctx, query{Dataset: "t"})
	if err != nil {
		return nil, err
	}
	h.stream, err = h.open(metadata.AppendToOutgoingContext(ctx, "penstock-session", h.session.ID), p.tickets[0])
	return h, err
}

// keep reads the stream to its end without returning memory.
func (h *hoarder) keep() error {
	for {
		message, err := h.stream.calls.Recv()
		if err != nil {
			return failed("stream", err, h.stream.calls.Trailer())
		}
		var said struct {
			Delivery uint32          `json:"delivery"`
			Report   json.RawMessage `json:"report"`
		}
		if len(message.GetDataHeader()) > 0 {
			continue // over the network
		}
		if err := json.Unmarshal(message.GetAppMetadata(), &said); err != nil {
			return err
		}
		if said.Report != nil {
			return nil
		}
		number, got, err := h.session.Receive()
		if err != nil {
			return err
		}
		if number != said.Delivery {
			return errors.Join(fmt.Errorf("delivery %d was named %d", number, said.Delivery), got.Close())
		}
		h.kept, h.sums = append(h.kept, got), append(h.sums, sha256.Sum256(got.Memory()))
		if err := h.session.Report([2]uint32{localtest.Seen, number}); err != nil {
			return err
		}
	}
}

// rave floods the server with returns of deliveries that it does not have, until the server ends
// the session.
func (h *hoarder) rave() error {
	flood := slices.Repeat([][2]uint32{{localtest.Returned, math.MaxUint32}}, 64)
	for {
		if err := h.session.Report(flood...); err != nil {
			return nil //nolint:nilerr // as it must
		}
	}
}

// changed returns how many of the kept batches have changed.
func (h *hoarder) changed() (n int) {
	for i, each := range h.kept {
		if sha256.Sum256(each.Memory()) != h.sums[i] {
			n++
		}
	}
	return n
}

func (h *hoarder) close() {
	for _, each := range h.kept {
		_ = each.Close() // of an attack
	}
	_ = h.session.Close() // the server may have ended it
	h.stream.close()
	h.client.close()
}

// lent returns the bytes of mapped memory that clients hold, from the server's metrics.
func (s *server) lent(ctx context.Context) (int64, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, `penstock_mapped_memory_bytes{state="lent"} `); ok {
			var bytes float64
			_, err := fmt.Sscan(rest, &bytes)
			return int64(bytes), err
		}
	}
	return 0, errors.New("the server has no metric of mapped memory")
}
