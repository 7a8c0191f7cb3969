package flight

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/policy"
)

// harmless reports whether a failure shows nothing that the caller may not read.
func (a access) harmless(err error) bool {
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
	return !slices.ContainsFunc(e.Faults, func(f fault.Field) bool { return !shows(f) }) && !a.namesWithheld(e.Error())
}

// shows reports whether a fault of a field may be shown.
func shows(f fault.Field) bool {
	root := f.Field
	if end := strings.IndexAny(root, ".["); end >= 0 {
		root = root[:end]
	}
	return slices.Contains(shownFields(), root)
}

// namesWithheld reports whether a text has the name of a withheld column that the query does not have.
func (a access) namesWithheld(text string) bool {
	asked := string(a.query.Canonical())
	return slices.ContainsFunc(a.rights.Withheld(a.dataset), func(name string) bool { return strings.Contains(text, name) && !hasWord(asked, name) })
}

// hasWord reports whether a text has a name that is not part of a longer one.
func hasWord(text, name string) bool {
	part := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 || name == "" {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:at+i])
		after, _ := utf8.DecodeRuneInString(text[at+i+len(name):])
		if !part(before) && !part(after) {
			return true
		}
		at += i + 1
	}
}
