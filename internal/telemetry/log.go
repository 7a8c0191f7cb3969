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
	// longestLogged is how much of one attribute's value, or of the message, a
	// log line has, in bytes: a client's query or an error with a thousand
	// faults must not fill the disk that the log lies on.
	longestLogged = 4 << 10
	// longestStack is how much of a stack: a bug of ours is rare, and all that is
	// known of it.
	longestStack = 64 << 10
	// stackKey is the attribute that has one.
	stackKey = "stack"
)

// NewLogger returns a logger that writes lines to w, from a level on, in the
// form "text" or "json". Durations are written as people read them, in both
// forms, and secrets of URIs not at all. What is longer than 4 KiB is cut, and says
// how much is left out.
func NewLogger(w io.Writer, level slog.Level, form string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if form == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// readable is what a handler writes for an attribute, of whatever group, with
// its LogValuer resolved.
func readable(_ []string, a slog.Attr) slog.Attr {
	most := longestLogged
	if a.Key == stackKey {
		most = longestStack
	}
	switch a.Value.Kind() { //nolint:exhaustive // the others have a few bytes; groups come attribute by attribute
	case slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	case slog.KindString:
		return slog.String(a.Key, shorten(fault.Redact(a.Value.String()), most))
	case slog.KindAny:
		if err, failed := a.Value.Any().(error); failed && rendered(err) != "" {
			return slog.String(a.Key, shorten(fault.Redact(rendered(err)), most))
		}
		// A handler has a form of its own for each of these: it stays where it is short.
		if text := rendered(a.Value.Any()); len(text) > most {
			return slog.String(a.Key, shorten(text, most))
		}
	}
	return a
}

// rendered returns the text of a value, as the handlers have it or longer; ""
// for one that panics, as nil pointers may: the handlers deal with those.
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

// shorten cuts a text to so many bytes, if it is longer, between runes, and says what it left out.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}
