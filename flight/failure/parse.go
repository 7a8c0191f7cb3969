package failure

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// Parse decodes the JSON details that a server sends with a failure. It reverses DetailsOf. Text
// that is not JSON is an Internal error.
func Parse(text []byte) *fault.Error {
	var d Details
	if err := json.Unmarshal(text, &d); err != nil {
		return fault.New(fault.Internal, "read the details of a failure: %w", err)
	}
	e := &fault.Error{
		Message: d.Message, Remedy: d.Remedy, Faults: d.Faults, Table: d.Table, File: d.File, RowGroup: d.RowGroup,
		RetryAfter: time.Duration(d.RetryAfterMS) * time.Millisecond, Differs: d.Differs,
	}
	if many := fault.Fields(d.Faults); many != nil {
		// On the wire, the operation is part of the message.
		if op, cut := strings.CutSuffix(d.Message, ": "+many.Error()); cut {
			e.Op, e.Message = op, many.Error()
		}
	}
	for kind := fault.Internal; kind <= fault.Unavailable; kind++ {
		if kind.String() == d.Kind {
			e.Kind = kind
		}
	}
	if d.Uncertain {
		return fault.As(commit.AsUncertain(e))
	}
	return e
}
