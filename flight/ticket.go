package flight

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// A ticket's bytes (docs/spec/ticket.md):
//
//	"pst", version, length of the key id, key id,
//	expiry in Unix seconds (8 bytes, big-endian),
//	deflated JSON of the content,
//	HMAC-SHA256 of everything before it
const (
	ticketMagic   = "pst"
	ticketVersion = 1
	maxTicket     = 64 << 10
	// maxTickets bounds the tickets of one response, in bytes.
	maxTickets = 64 << 20
	maxContent = 1 << 20 // of the JSON; signed contents are smaller, so this only limits the cost of a bug
	// maxContents bounds the contents of the tickets of one response: a repetitive one takes far more than its ticket.
	maxContents = 128 << 20
	// freeTickets is how many bytes of tickets a call holds without a reservation.
	freeTickets = 1 << 20
	// A query takes about queryMemory times the bytes of its text. Up to freeQuery of a stream are not charged to the budget;
	// few queries are larger.
	queryMemory, freeQuery = 4, 64 << 10
)

// planAgain is the remedy for every ticket that is no longer valid.
const planAgain = "ask GetFlightInfo again, with the pin or cursor of the run"

// content is the content of a ticket. The query names or contains the dataset, and contains
// the pin, the shard and the cursor. If there is a cursor, the pin is part of it.
type content struct {
	Digest    string          `json:"digest"` // of the dataset
	Plan      string          `json:"plan"`   // plan.Plan.ID
	Files     string          `json:"files"`  // plan.Plan.FilesID
	Algorithm int             `json:"algorithm"`
	Query     json.RawMessage `json:"query"`
	// Counted is the number of rows of the shard's lanes, if rows were counted and the query
	// has no cursor, which would have it.
	Counted *dataset.Counted `json:"counted,omitempty"`
	// First is the expiry of the original ticket, in Unix seconds; 0 if this one was not
	// renewed.
	First int64 `json:"first,omitempty"`
	// Part is the part of the plan's splits that is read; nil unless endpoints is splits.
	Part *plan.Part `json:"part,omitempty"`
	// Subject is the subject of the call that the ticket was made for; "" if it had none.
	Subject string `json:"subject,omitempty"`
}

// memory returns the bytes that a stream holds for its query and reserves, from before it waits for a slot
// to its end.
func (c content) memory() int64 {
	bytes := queryMemory * int64(len(c.Query))
	if bytes <= freeQuery {
		return 0
	}
	return bytes
}

// newContent makes the content of a ticket for a query and its plan.
func newContent(q dataset.Query, p *plan.Plan) content {
	q.Pin = p.Rows.Pin
	return content{Digest: p.Digest, Plan: p.ID, Files: p.FilesID, Algorithm: plan.Algorithm, Query: q.Canonical()}
}

// seal signs a content. The same content, keys and expiry give the same bytes.
func (k *Keys) seal(c content, expires time.Time) ([]byte, error) { return k.sealer()(c, expires) }

// sealer returns a function that seals the contents of one response, one after the other.
// They share a compressor, which takes a megabyte.
func (k *Keys) sealer() func(c content, expires time.Time) ([]byte, error) {
	return k.sealerOf(maxTickets, maxContents)
}

// sealerOf is a sealer whose tickets take at most maxBytes together, and their contents at most maxTexts.
func (k *Keys) sealerOf(maxBytes, maxTexts int) func(c content, expires time.Time) ([]byte, error) {
	deflated, err := flate.NewWriter(nil, flate.BestCompression)
	sum, texts := 0, 0
	return func(c content, expires time.Time) ([]byte, error) {
		if err != nil {
			return nil, fault.New(fault.Internal, "write a ticket: %w", err)
		}
		text := marshal(c)
		if texts += len(text); texts > maxTexts {
			return nil, fault.New(fault.Invalid, "the contents of the tickets of all endpoints take more than %d bytes; this one takes %d", maxTexts, len(text)).
				WithRemedy("ask for one shard at a time (shard.index), or for fewer columns")
		}
		sealed, err := k.sealWith(deflated, c, text, expires)
		if sum += len(sealed); err == nil && sum > maxBytes {
			return nil, fault.New(fault.Invalid, "the tickets of all endpoints take more than %d bytes; this one takes %d", maxBytes, len(sealed)).
				WithRemedy("ask for one shard at a time (shard.index), or for fewer columns")
		}
		return sealed, err
	}
}

// tickets makes, opens and renews tickets, and makes the endpoints that have them. It is safe for concurrent use.
type tickets struct {
	keys      func() *Keys // the current ones
	clock     func() time.Time
	ticks     func() time.Time // for rests
	lifetime  time.Duration
	renewal   time.Duration // how long after its first expiry a ticket can be extended
	advertise []string      // locations in endpoints
	budget    *budget.Budget
	streams   func() int // that are open
}

// sealer seals the tickets of one response to a call, for its subject: what they hold is reserved until release, and the call
// may end meanwhile. While streams are open, many tickets take half of a processor at most.
func (t *tickets) sealer(ctx context.Context, of *call) (seal func(c content, expires time.Time) ([]byte, error), release func()) {
	each, held, sum := t.keys().sealer(), (*budget.Reservation)(nil), 0
	made, began := 0, t.ticks()
	return func(c content, expires time.Time) ([]byte, error) {
			if made++; made%manyTickets == 0 && t.streams() > 0 {
				rest(ctx, t.ticks().Sub(began))
				began = t.ticks()
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			c.Subject = of.caller.Subject
			sealed, err := each(c, expires)
			if sum += len(sealed); err != nil || sum <= freeTickets {
				return sealed, err
			}
			if held == nil {
				if held, err = t.budget.Reserve("the tickets of a plan", int64(sum)); err != nil {
					return nil, err
				}
				return sealed, nil
			}
			return sealed, held.Grow(int64(len(sealed)))
		}, func() {
			if held != nil {
				held.Release()
			}
		}
}

// rest waits for a time, or for the end of a context.
func rest(ctx context.Context, some time.Duration) {
	timer := time.NewTimer(some)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (k *Keys) sealWith(deflated *flate.Writer, c content, text []byte, expires time.Time) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(ticketMagic)
	b.WriteByte(ticketVersion)
	b.WriteByte(byte(len(k.sign)))
	b.WriteString(k.sign)
	b.Write(binary.BigEndian.AppendUint64(nil, uint64(expires.Unix())))
	deflated.Reset(&b)
	_, err := deflated.Write(text)
	if err == nil {
		err = deflated.Close()
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "write a ticket: %w", err)
	}
	b.Write(k.mac(k.sign, b.Bytes()))
	if b.Len() > maxTicket {
		return nil, tooLarge(c, b.Len())
	}
	return b.Bytes(), nil
}

func (k *Keys) mac(id string, signed []byte) []byte {
	h := hmac.New(sha256.New, k.keys[id])
	h.Write(signed)
	return h.Sum(nil)
}

// open verifies a ticket and returns its content. Before the signature is verified, it reads
// only the version and the id of the key.
func (k *Keys) open(ticket []byte, now time.Time) (content, error) {
	rest, ok := bytes.CutPrefix(ticket, []byte(ticketMagic))
	if !ok || len(rest) < 2 || len(ticket) > maxTicket {
		return content{}, forged("these are not the bytes of a ticket")
	}
	if rest[0] != ticketVersion {
		return content{}, stale("the ticket has form %d, this server reads form %d", rest[0], ticketVersion)
	}
	idEnd := 2 + int(rest[1])
	if len(rest) < idEnd+8+sha256.Size {
		return content{}, forged("the ticket is cut off")
	}
	id := string(rest[2:idEnd])
	if k.keys[id] == nil {
		return content{}, stale("this server does not have the key that signed the ticket")
	}
	signed, mac := ticket[:len(ticket)-sha256.Size], ticket[len(ticket)-sha256.Size:]
	if !hmac.Equal(mac, k.mac(id, signed)) {
		return content{}, forged("its signature does not fit")
	}
	if expires := expiryOf(ticket); now.Unix() >= expires {
		return content{}, stale("the ticket expired at %s", time.Unix(expires, 0).UTC().Format(time.RFC3339))
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(rest[idEnd+8:len(rest)-sha256.Size])), maxContent))
	if err != nil {
		return content{}, fault.New(fault.Internal, "inflate a signed ticket: %w", err)
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return content{}, fault.New(fault.Internal, "read a signed ticket: %w", err)
	}
	return c, nil
}

// expiryOf returns the expiry of a verified ticket, in Unix seconds.
func expiryOf(ticket []byte) int64 {
	rest := ticket[len(ticketMagic):]
	return int64(binary.BigEndian.Uint64(rest[2+int(rest[1]):]))
}

// open verifies a ticket, and whether the subject of a call is the one that it was made for.
func (t *tickets) open(of *call, ticket []byte) (content, error) {
	c, err := t.keys().open(ticket, t.clock())
	if err != nil {
		return content{}, err
	}
	switch subject := of.caller.Subject; {
	case c.Subject == subject:
		return c, nil
	case c.Subject == "":
		return content{}, stale("the ticket was made by a server without credentials, and this one has some")
	case subject == "":
		return content{}, stale("the ticket was made for a subject, and this server has no credentials that name one")
	default:
		of.note.ticket(c)
		return content{}, fault.New(fault.Forbidden, "the ticket was made for another subject than that of this call's credentials").
			WithRemedy("ask GetFlightInfo with the same credentials as DoGet; a cursor may be of any subject")
	}
}

// renewed signs the content of a valid ticket, which expires at was, again, with a later expiry. The expiry is at
// most Options.Renewal after that of the original ticket: otherwise tickets would outlive the
// keys that signed them, and the rights of their holders.
func (t *tickets) renewed(c content, was int64) ([]byte, time.Time, error) {
	expires := t.clock().Add(t.lifetime)
	first := cmp.Or(c.First, was)
	if last := time.Unix(first, 0).Add(t.renewal).UTC(); expires.After(last) {
		if last.Unix() <= was {
			return nil, time.Time{}, stale("the ticket cannot be renewed any more: it was first good until %s, and is for %s longer at the most",
				time.Unix(first, 0).UTC().Format(time.RFC3339), t.renewal)
		}
		expires = last
	}
	if expires.Unix() != first {
		c.First = first
	}
	sealed, err := t.keys().seal(c, expires)
	return sealed, expires, err
}

func forged(format string, args ...any) error {
	return fault.InvalidField("ticket", format, args...).WithRemedy("use the tickets of GetFlightInfo as they are")
}

func stale(format string, args ...any) error {
	return fault.New(fault.Expired, format, args...).WithRemedy(planAgain)
}

// tooLarge names the field of the query that takes the most room.
func tooLarge(c content, size int) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.Query, &fields); err != nil {
		return fault.New(fault.Internal, "read a ticket's query: %w", err)
	}
	if c.Counted != nil {
		fields["lanes"] = marshal(c.Counted)
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	largest := slices.MaxFunc(names, func(a, b string) int { return len(fields[a]) - len(fields[b]) })
	remedies := map[string]string{
		"dataset": "put the dataset into the server's configuration and name it",
		"columns": "ask for fewer columns, or leave columns out and choose them in the dataset",
		"filter":  "put the filter into the dataset's training.filter",
		"cursor":  "use more shards, or fewer lanes",
		"lanes":   "use more shards, or fewer lanes",
	}
	e := fault.InvalidField(largest, "the ticket takes %d bytes, more than %d; the largest part is %s with %d",
		size, maxTicket, largest, len(fields[largest]))
	if remedy := remedies[largest]; remedy != "" {
		return e.WithRemedy("%s", remedy)
	}
	return e.WithRemedy("make the query smaller, beginning with %s", fmt.Sprintf("%q", largest))
}
