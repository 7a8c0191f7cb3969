package telemetry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
)

const (
	// maxLogged bounds the bytes of the message and of each attribute in a log line, so
	// that a long query or an error with a thousand faults does not fill the disk.
	maxLogged = 4 << 10
	// maxStack bounds the bytes of a stack. Crashes are rare, and the stack explains them.
	maxStack = 64 << 10
	// stackKey is the key of an attribute with a stack.
	stackKey = "stack"
)

// NewLogger returns a logger that writes lines of the given level or a higher one to w, in the
// format "text" or "json". Both formats write durations with units and hide secrets in URIs. Values
// of more than 4 KiB are truncated, with the number of omitted bytes.
func NewLogger(w io.Writer, level slog.Level, form string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if form == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// readable returns the attribute that a handler writes in place of a.
func readable(_ []string, a slog.Attr) slog.Attr {
	limit := maxLogged
	if a.Key == stackKey {
		limit = maxStack
	}
	switch a.Value.Kind() { //nolint:exhaustive // values of other kinds are short, and readable is called for each attribute of a group
	case slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	case slog.KindString:
		return slog.String(a.Key, shorten(fault.Redact(a.Value.String()), limit))
	case slog.KindAny:
		if err, failed := a.Value.Any().(error); failed && rendered(err) != "" {
			return slog.String(a.Key, shorten(fault.Redact(rendered(err)), limit))
		}
		// Handlers format these values in their own ways, so short values are left to them.
		if text := rendered(a.Value.Any()); len(text) > limit {
			return slog.String(a.Key, shorten(text, limit))
		}
	}
	return a
}

// rendered returns a text of a value. The text is at least as long as the text that a handler would
// write. It returns "" if the value's method panics, as it may for nil pointers; handlers can deal
// with such values.
func rendered(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	switch v := value.(type) {
	case error:
		return v.Error()
	case json.Marshaler:
		if text, err := v.MarshalJSON(); err == nil {
			return string(text)
		}
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil {
			return string(text)
		}
	case []byte:
		return string(v)
	}
	return fmt.Sprintf("%+v", value)
}

// shorten truncates a text that is longer than the limit. It cuts between runes, and appends the
// number of omitted bytes.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}
