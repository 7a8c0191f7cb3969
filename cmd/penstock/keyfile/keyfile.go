// Package keyfile reads the file of ticket keys, and checks who else can use it.
package keyfile

import (
	"io"
	"log/slog"
	"os"

	"github.com/penstock/penstock/internal/fault"
)

// Read reads the file that ticket_keys names. Other users could sign tickets if they could
// read or write it: a file that users other than this one and root may write is refused,
// one that they may read is logged as a warning.
func Read(path string, log *slog.Logger) ([]byte, error) {
	const remedy = "set ticket_keys to a file that this user may read"
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the ticket keys: %w", err).In("", path).WithRemedy(remedy)
	}
	defer file.Close() //nolint:errcheck // it was only read
	stat, err := file.Stat()
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the ticket keys: %w", err).In("", path).WithRemedy(remedy)
	}
	if others := writers(stat); others != "" {
		return nil, fault.InvalidField("ticket_keys", "%s may write %s, and so sign tickets", others, path).In("", path).
			WithRemedy("make root or this user its owner, and chmod 600 it; if others could use it, make new keys")
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
