package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/penstock/penstock/internal/fault"
)

// readKeyFile reads the file that ticket_keys names. Who may write it could sign
// tickets of its own, so nobody may but this user and root; that others may read
// it is logged.
func readKeyFile(path string, log *slog.Logger) ([]byte, error) {
	const remedy = "see that ticket_keys names a file that this user may read"
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the ticket keys: %w", err).In("", path).WithRemedy(remedy)
	}
	defer file.Close() //nolint:errcheck // it was read alone
	stat, err := file.Stat()
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the ticket keys: %w", err).In("", path).WithRemedy(remedy)
	}
	if others := writers(stat); others != "" {
		return nil, fault.InvalidField("ticket_keys", "%s may write %s, and so sign tickets", others, path).In("", path).
			WithRemedy("let it belong to root or to this user, and chmod 600 it; if others had it, make new keys")
	}
	if readableByOthers(stat) {
		log.Warn("others may read the ticket keys, and so sign tickets: chmod 600", "file", path, "mode", stat.Mode().String())
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the ticket keys: %w", err).In("", path).WithRemedy(remedy)
	}
	return text, nil
}
