package flight

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/policy"
)

// harmless reports whether a failure shows nothing that a caller with limited access may not read.
func harmless(err error) bool {
	if errors.As(err, new(endedByServer)) || errors.As(err, new(withheld)) {
		return true
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		var onWire interface{ GRPCStatus() *status.Status }
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &onWire)
	}
	if errors.As(err, new(policy.Seen)) {
		return true
	}
	if e.Kind != fault.Invalid || len(e.Faults) == 0 || e.File != "" || e.Table != "" {
		return false
	}
	return !slices.ContainsFunc(e.Faults, func(f fault.Field) bool { return !shows(f) })
}

// shows reports whether a fault of a field may be shown.
func shows(f fault.Field) bool {
	root := f.Field
	if end := strings.IndexAny(root, ".["); end >= 0 {
		root = root[:end]
	}
	return slices.Contains(shownFields(), root)
}
