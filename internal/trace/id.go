package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// ID identifies a trace.
type ID [16]byte

// SpanID identifies a span within its trace. The zero value is no span.
type SpanID [8]byte

// Link refers to a span of another trace. The zero value refers to none.
type Link struct {
	Trace ID
	Span  SpanID
}

// Parent is the content of a traceparent header.
type Parent struct {
	Link
	Sampled bool // the caller records its trace
}

// Lengths of the fields of a traceparent header, in hexadecimal digits: version, trace id, span id and flags.
const (
	versionDigits = 2
	traceDigits   = 2 * len(ID{})
	spanDigits    = 2 * len(SpanID{})
	flagDigits    = 2
	sampledFlag   = 1
)

// ParseParent parses a traceparent header of W3C Trace Context. It returns false if the header is not valid.
func ParseParent(header string) (Parent, bool) {
	fields := strings.Split(header, "-")
	if len(fields) < 4 || len(fields[0]) != versionDigits || fields[0] == "ff" || fields[0] == "00" && len(fields) > 4 {
		return Parent{}, false
	}
	var p Parent
	var version, flags [1]byte
	ok := decode(version[:], fields[0], versionDigits) && decode(p.Trace[:], fields[1], traceDigits) &&
		decode(p.Span[:], fields[2], spanDigits) && decode(flags[:], fields[3], flagDigits)
	if !ok || p.Trace == (ID{}) || p.Span == (SpanID{}) {
		return Parent{}, false
	}
	p.Sampled = flags[0]&sampledFlag != 0
	return p, true
}

// decode decodes lower-case hexadecimal digits.
func decode(out []byte, text string, digits int) bool {
	if len(text) != digits || strings.ToLower(text) != text {
		return false
	}
	_, err := hex.Decode(out, []byte(text))
	return err == nil
}

// StepTrace returns the id of the trace of a step, given the span that opened the stream.
func StepTrace(opened Link, step int64) ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(append(opened.Trace[:], opened.Span[:]...), uint64(step))) //nolint:gosec // steps are not negative
	return ID(sum[:len(ID{})])
}

// StepSpan returns the id of the span of a step in its trace. A trace may have such spans of several streams that one span has
// opened: those of the ranks of a job, or of a mix.
func StepSpan(of ID, plan string, shard int) SpanID {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint32(of[:], uint32(shard)), plan...)) //nolint:gosec // shards are small numbers
	return SpanID(sum[:len(SpanID{})])
}

// randomLink returns a link to a span of a new trace.
func randomLink() Link {
	var out Link
	binary.NativeEndian.PutUint64(out.Trace[:], rand.Uint64()) //nolint:gosec // the ids of traces are not secret
	binary.NativeEndian.PutUint64(out.Trace[8:], rand.Uint64())
	out.Span = randomSpan()
	return out
}

// randomSpan returns a new id, which is not zero.
func randomSpan() SpanID {
	var out SpanID
	binary.NativeEndian.PutUint64(out[:], rand.Uint64()|1) //nolint:gosec // the ids of spans are not secret
	return out
}
