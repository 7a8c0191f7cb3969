package fitted

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/penstock/penstock/internal/fault"
)

// Bytes returns the content of the file. It depends only on f.
func (f File) Bytes() ([]byte, error) {
	f.Version = Version
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, fault.New(fault.Internal, "write lists: %w", err)
	}
	return out.Bytes(), nil
}

// Digest returns the digest of the content of a file, as sha256:….
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
