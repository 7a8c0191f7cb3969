package ticket

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/fault"
)

// Sizes of keys and of their ids, in bytes.
const (
	minKey   = 32
	maxKeyID = 32
)

// Keys sign and verify tickets. The first key in the file signs; every key can verify. Replicas
// that share a key file redeem each other's tickets. To rotate keys, first add the new key at the
// end of the file on every replica, then move it to the beginning. Remove the old key after the
// tickets that it signed have expired. A Keys value does not change.
type Keys struct {
	sign string
	keys map[string][]byte
}

// ParseKeys parses a key file. Each line has a key: its id, a space, and at least 32 random bytes
// as base64. Empty lines and lines that begin with # are ignored. ParseKeys reports the faults of
// all lines together, and no fault shows a key.
func ParseKeys(text []byte) (*Keys, error) {
	k := &Keys{keys: map[string][]byte{}}
	faults := fault.Lines(text, k.add)
	if len(faults) == 0 && k.sign == "" {
		faults = append(faults, fault.Field{Message: "there is no key"})
	}
	if err := fault.Fields(faults); err != nil {
		return nil, fault.As(err).WithRemedy("write one key per line, such as: echo \"k1 $(head -c 32 /dev/urandom | base64 -w 0)\"")
	}
	return k, nil
}

// add adds the key that the fields of a line describe, or returns what is wrong with the line.
func (k *Keys) add(fields []string) string {
	if len(fields) != 2 {
		return "want an id, a space and a key in base64"
	}
	id := fields[0]
	key, err := base64.StdEncoding.DecodeString(fields[1])
	switch {
	case len(id) > maxKeyID:
		return fmt.Sprintf("the id is longer than %d bytes", maxKeyID)
	case k.keys[id] != nil:
		return fmt.Sprintf("the id %q stands twice", id)
	case err != nil:
		return "the key is not base64"
	case len(key) < minKey:
		return fmt.Sprintf("the key has %d bytes, fewer than %d", len(key), minKey)
	}
	if k.sign == "" {
		k.sign = id
	}
	k.keys[id] = key
	return ""
}

// RandomKeys returns one random key for a single server; replicas need a shared key file. The key's
// id is also random, so that tickets of an earlier run of the server count as expired, not as
// forged.
func RandomKeys(random io.Reader) (*Keys, error) {
	b := make([]byte, minKey+4)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fault.New(fault.Internal, "make a ticket key: %w", err)
	}
	id := "random-" + hex.EncodeToString(b[minKey:])
	return &Keys{sign: id, keys: map[string][]byte{id: b[:minKey]}}, nil
}
