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

// Keys sign and verify tickets. The first key signs, all keys verify. Replicas that share a
// key file redeem each other's tickets. To rotate keys, add the new key last on every
// replica, then move it first, and remove the old one after its tickets have expired. Keys do not change.
type Keys struct {
	sign string
	keys map[string][]byte
}

// ParseKeys parses a key file. Each line has a key: its id, a space, and at least 32 random
// bytes as base64. Empty lines and lines that begin with # are ignored. All faults are
// reported together, by line, and never show a key.
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

// add adds the key in the fields of a line, or returns what is wrong with them.
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

// RandomKeys returns one random key with a random id: tickets of an earlier run then count as
// expired, not as forged. It is for a single server; replicas share a key file.
func RandomKeys(random io.Reader) (*Keys, error) {
	b := make([]byte, minKey+4)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fault.New(fault.Internal, "make a ticket key: %w", err)
	}
	id := "random-" + hex.EncodeToString(b[minKey:])
	return &Keys{sign: id, keys: map[string][]byte{id: b[:minKey]}}, nil
}
