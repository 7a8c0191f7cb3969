package flight

import (
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// A ticket's bytes (docs/spec/ticket.md):
//
//	"pst", version, length of the key id, key id,
//	expiry in Unix seconds (8 bytes, big-endian),
//	deflated JSON of the content,
//	HMAC-SHA256 of all that stands before it
const (
	ticketMagic   = "pst"
	ticketVersion = 1
	maxTicket     = 64 << 10
	// maxTickets bounds those of one answer, together.
	maxTickets = 64 << 20
	maxContent = 1 << 20 // of the JSON; what was signed is smaller, this bounds what a bug may cost
)

// planAgain is the remedy for every ticket that is no good any more.
const planAgain = "ask GetFlightInfo again, with the pin or cursor of the run"

// content is what a ticket says. The query names or carries the dataset and
// holds pin, shard and cursor, the pin inside the cursor if there is one.
type content struct {
	Digest    string          `json:"digest"` // of the dataset
	Plan      string          `json:"plan"`   // plan.Plan.ID
	Files     string          `json:"files"`  // plan.Plan.FilesID
	Algorithm int             `json:"algorithm"`
	Query     json.RawMessage `json:"query"`
	// Counted is how many rows the shard's lanes give, where that was counted and the
	// query has no cursor that says it.
	Counted *dataset.Counted `json:"counted,omitempty"`
	// First is the expiry of the ticket that this one was when GetFlightInfo gave
	// it, in Unix seconds; 0 if it is still that one.
	First int64 `json:"first,omitempty"`
	// Part is which of the plan's splits are read, of endpoints: splits; else nil.
	Part *plan.Part `json:"part,omitempty"`
}

// newContent makes the content of a ticket for a query and its plan.
func newContent(q dataset.Query, p *plan.Plan) content {
	q.Pin = p.Rows.Pin
	return content{Digest: p.Digest, Plan: p.ID, Files: p.FilesID, Algorithm: plan.Algorithm, Query: q.Canonical()}
}

// seal signs a content. The same content, keys and expiry give the same bytes.
func (k *Keys) seal(c content, expires time.Time) ([]byte, error) { return k.sealer()(c, expires) }

// sealer returns seal for the contents of one answer, one after the other: what deflates
// them is made once, since it takes a megabyte.
func (k *Keys) sealer() func(c content, expires time.Time) ([]byte, error) {
	return k.sealerOf(maxTickets)
}

// sealerOf is a sealer whose tickets may take so many bytes together.
func (k *Keys) sealerOf(most int) func(c content, expires time.Time) ([]byte, error) {
	deflated, err := flate.NewWriter(nil, flate.BestCompression)
	sum := 0
	return func(c content, expires time.Time) ([]byte, error) {
		if err != nil {
			return nil, fault.New(fault.Internal, "write a ticket: %w", err)
		}
		sealed, err := k.sealWith(deflated, c, expires)
		if sum += len(sealed); err == nil && sum > most {
			return nil, fault.New(fault.Invalid, "the tickets of all endpoints take more than %d bytes; this one takes %d", most, len(sealed)).
				WithRemedy("ask for one shard at a time (shard.index), or for fewer columns")
		}
		return sealed, err
	}
}

func (k *Keys) sealWith(deflated *flate.Writer, c content, expires time.Time) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(ticketMagic)
	b.WriteByte(ticketVersion)
	b.WriteByte(byte(len(k.sign)))
	b.WriteString(k.sign)
	b.Write(binary.BigEndian.AppendUint64(nil, uint64(expires.Unix())))
	deflated.Reset(&b)
	_, err := deflated.Write(marshal(c))
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

// open verifies a ticket and returns its content. Nothing of it is looked at
// before the signature holds, save what names the key.
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

// expiryOf returns the expiry of a ticket that was looked at, in Unix seconds.
func expiryOf(ticket []byte) int64 {
	rest := ticket[len(ticketMagic):]
	return int64(binary.BigEndian.Uint64(rest[2+int(rest[1]):]))
}

// renewed signs the content of a ticket that is still valid anew. However often
// that is done, a ticket lasts only so long beyond its first expiry: it would
// outlive the keys that it was signed with, and what its holder may do.
func (s *Server) renewed(ticket []byte) ([]byte, time.Time, error) {
	now := s.options.Clock()
	c, err := s.options.Keys.open(ticket, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	was, expires := expiryOf(ticket), now.Add(s.options.Lifetime)
	first := cmp.Or(c.First, was)
	if last := time.Unix(first, 0).Add(s.options.Renewal).UTC(); expires.After(last) {
		if last.Unix() <= was {
			return nil, time.Time{}, stale("the ticket cannot be renewed any more: it was first good until %s, and is for %s longer at the most",
				time.Unix(first, 0).UTC().Format(time.RFC3339), s.options.Renewal)
		}
		expires = last
	}
	if expires.Unix() != first {
		c.First = first
	}
	sealed, err := s.options.Keys.seal(c, expires)
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
