package flight

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Sizes of keys and of their ids, in bytes.
const (
	minKey   = 32
	maxKeyID = 32
)

// Keys sign and verify tickets. The first signs, all verify. Replicas that
// share a key file redeem each other's tickets. To rotate: put the new key
// last on every replica, then first, and take the old one out once its tickets
// have expired.
type Keys struct {
	sign string
	keys map[string][]byte
}

// ParseKeys reads a key file: a line for each key, its id, a space, and at
// least 32 random bytes in base64. Empty lines and lines that begin with # do
// not count. All faults are reported at once, by line; keys are never shown.
func ParseKeys(text []byte) (*Keys, error) {
	k := &Keys{keys: map[string][]byte{}}
	var faults []fault.Field
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if message := k.add(strings.Fields(line)); message != "" {
			faults = append(faults, fault.Field{Field: fmt.Sprintf("line %d", n), Message: message})
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fault.Field{Message: err.Error()})
	}
	if len(faults) == 0 && k.sign == "" {
		faults = append(faults, fault.Field{Message: "there is no key"})
	}
	if err := fault.Fields(faults); err != nil {
		return nil, fault.As(err).WithRemedy("write one key a line, such as: echo \"k1 $(head -c 32 /dev/urandom | base64 -w 0)\"")
	}
	return k, nil
}

// add takes the fields of a line, or says what is wrong with them.
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

// RandomKeys makes one key of random bytes, with a random id: tickets of an
// earlier run then count as expired, not as forged. It is for one server
// alone; replicas share a key file.
func RandomKeys(random io.Reader) (*Keys, error) {
	b := make([]byte, minKey+4)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fault.New(fault.Internal, "make a ticket key: %w", err)
	}
	id := "random-" + hex.EncodeToString(b[minKey:])
	return &Keys{sign: id, keys: map[string][]byte{id: b[:minKey]}}, nil
}
