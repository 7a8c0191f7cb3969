// Package ticket writes and reads the bytes of tickets.
//
// A ticket contains everything that determines the rows of a stream, and it is signed. A server
// that has the signing key serves exactly the rows that the ticket describes, or fails.
package ticket

import (
	"bytes"
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
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
)

// A ticket's bytes (docs/spec/ticket.md):
//
//	"pst", version, length of the key id, key id,
//	expiry in Unix seconds (8 bytes, big-endian),
//	deflated JSON of the content,
//	HMAC-SHA256 of everything before it
const (
	magic      = "pst"
	version    = 1
	maxTicket  = 64 << 10
	maxContent = 1 << 20 // bytes of the JSON; the JSON of signed tickets is smaller, so this only limits the cost of a bug
)

// PlanAgain is the remedy for every ticket that is no longer valid.
const PlanAgain = "call GetFlightInfo again, with the pin or cursor of the run"

// Content is the content of a ticket. The query names or contains the dataset, and contains
// the pin, the shard and the cursor. If there is a cursor, the pin is part of it. The query does
// not contain the algorithm: the release before refuses queries with that field.
type Content struct {
	Digest    string          `json:"digest"` // of the dataset
	Plan      string          `json:"plan"`   // plan.Plan.ID
	Files     string          `json:"files"`  // plan.Plan.FilesID
	Algorithm int             `json:"algorithm"`
	Query     json.RawMessage `json:"query"`
	// Counted holds the numbers of rows of the plan and of each of the shard's lanes. It is nil if
	// rows were not counted, or if the query has a cursor, which then contains these numbers.
	Counted *dataset.Counted `json:"counted,omitempty"`
	// First is the expiry of the original ticket, in Unix seconds, if this ticket is a renewal of
	// it; otherwise 0.
	First int64 `json:"first,omitempty"`
	// Part is the part of the plan's splits that the stream reads. It is nil unless the query has
	// `endpoints: splits`.
	Part *plan.Part `json:"part,omitempty"`
	// Subject is the subject of the client that got the ticket, or "" if its call had no subject.
	Subject string `json:"subject,omitempty"`
}

// New returns the content of a ticket for a query and its plan.
func New(q dataset.Query, p *plan.Plan) Content {
	q.Pin, q.Algorithm = p.Rows.Pin, 0
	return Content{Digest: p.Digest, Plan: p.ID, Files: p.FilesID, Algorithm: p.Algorithm, Query: q.Canonical()}
}

// Seal returns the signed ticket for a content. The same content, keys and expiry give the same
// bytes.
func (k *Keys) Seal(c Content, expires time.Time) ([]byte, error) {
	return k.Sealer(maxTicket, maxContent)(c, expires)
}

// Sealer returns a function that seals the contents of one response, one after the other. The
// function fails once the tickets of the response together have more than maxBytes bytes, or their
// contents together more than maxTexts bytes. All calls of the function share one compressor,
// because a compressor takes a megabyte of memory.
func (k *Keys) Sealer(maxBytes, maxTexts int) func(c Content, expires time.Time) ([]byte, error) {
	deflated, err := flate.NewWriter(nil, flate.BestCompression)
	sum, texts := 0, 0
	return func(c Content, expires time.Time) ([]byte, error) {
		if err != nil {
			return nil, fault.New(fault.Internal, "write a ticket: %w", err)
		}
		text, err := c.text()
		if err != nil {
			return nil, err
		}
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

// text returns the JSON of a content, without escapes of <, > and &.
func (c Content) text() ([]byte, error) {
	out, err := jsontext.Encode(c)
	if err != nil {
		return nil, fault.New(fault.Internal, "write a ticket: %w", err)
	}
	return out, nil
}

func (k *Keys) sealWith(deflated *flate.Writer, c Content, text []byte, expires time.Time) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(magic)
	b.WriteByte(version)
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

// Open verifies a ticket and returns its content. Before Open has verified the signature, it reads
// only the ticket's version and the id of the key.
func (k *Keys) Open(ticket []byte, now time.Time) (Content, error) {
	rest, ok := bytes.CutPrefix(ticket, []byte(magic))
	if !ok || len(rest) < 2 || len(ticket) > maxTicket {
		return Content{}, forged("these are not the bytes of a ticket")
	}
	if rest[0] != version {
		return Content{}, Expired("the ticket has form %d, this server reads form %d", rest[0], version)
	}
	idEnd := 2 + int(rest[1])
	if len(rest) < idEnd+8+sha256.Size {
		return Content{}, forged("the ticket is cut off")
	}
	id := string(rest[2:idEnd])
	if k.keys[id] == nil {
		return Content{}, Expired("this server does not have the key that signed the ticket")
	}
	signed, mac := ticket[:len(ticket)-sha256.Size], ticket[len(ticket)-sha256.Size:]
	if !hmac.Equal(mac, k.mac(id, signed)) {
		return Content{}, forged("its signature does not fit")
	}
	if expires := ExpiryOf(ticket); now.Unix() >= expires {
		return Content{}, Expired("the ticket expired at %s", time.Unix(expires, 0).UTC().Format(time.RFC3339))
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(rest[idEnd+8:len(rest)-sha256.Size])), maxContent))
	if err != nil {
		return Content{}, fault.New(fault.Internal, "inflate a signed ticket: %w", err)
	}
	var c Content
	if err := json.Unmarshal(text, &c); err != nil {
		return Content{}, fault.New(fault.Internal, "read a signed ticket: %w", err)
	}
	return c, nil
}

// ExpiryOf returns the expiry of a verified ticket, in Unix seconds.
func ExpiryOf(ticket []byte) int64 {
	rest := ticket[len(magic):]
	return int64(binary.BigEndian.Uint64(rest[2+int(rest[1]):]))
}

func forged(format string, args ...any) error {
	return fault.InvalidField("ticket", format, args...).WithRemedy("use the tickets of GetFlightInfo as they are")
}

// Expired returns the error of a ticket that is no longer valid.
func Expired(format string, args ...any) error {
	return fault.New(fault.Expired, format, args...).WithRemedy(PlanAgain)
}

// tooLarge returns the error for a ticket of too many bytes. The error names the field of the query
// that takes the most bytes.
func tooLarge(c Content, size int) error {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(c.Query, &fields)
	if err == nil && c.Counted != nil {
		fields["lanes"], err = json.Marshal(c.Counted)
	}
	if err != nil {
		return fault.New(fault.Internal, "read a ticket's query: %w", err)
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

// Asked decodes the ticket's query, and sets its algorithm and its defaults.
func (c Content) Asked() (dataset.Query, error) {
	query, err := decode.Query(c.Query)
	query.Algorithm = c.Algorithm
	return query.Defaults(), fault.Op(err, "read the ticket's query")
}

// PartOf returns the part of the plan that a ticket is for. Only tickets for splits name one.
func (c Content) PartOf(q dataset.Query) (plan.Part, error) {
	switch {
	case q.Endpoints.BySplits() != (c.Part != nil):
		return plan.Part{}, fault.New(fault.Internal, "a signed ticket contradicts its query, endpoints: %s", q.Endpoints)
	case c.Part == nil:
		return plan.Part{}, nil
	}
	return *c.Part, nil
}
