package telemetry

import (
	"io"
	"log/slog"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// NewLogger returns a logger that writes lines to w, from a level on, in the
// form "text" or "json". Durations are written as people read them, in both forms,
// and secrets of URIs not at all.
func NewLogger(w io.Writer, level slog.Level, form string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if form == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func readable(_ []string, a slog.Attr) slog.Attr {
	err, failed := a.Value.Any().(error)
	switch {
	case failed:
		return slog.String(a.Key, fault.Redact(err.Error()))
	case a.Value.Kind() == slog.KindDuration:
		return slog.String(a.Key, a.Value.Duration().Round(time.Microsecond).String())
	case a.Value.Kind() == slog.KindString:
		return slog.String(a.Key, fault.Redact(a.Value.String()))
	default:
		return a
	}
}
