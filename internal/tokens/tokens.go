// Package tokens holds static tokens: random secrets, each of which names a subject.
//
// A server has only their SHA-256 digests. A slow hash, as for passwords, would add nothing: a token has 256 random bits, so
// that no search finds one for a digest, and a check must cost little, since each call has one.
package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Prefix begins every token, so that programs that search texts for secrets can find them.
const Prefix = "pst_"

const (
	secretBytes   = 32
	maxSubject    = 128 // bytes
	digestPrefix  = "sha256:"
	expiresPrefix = "expires="
	indexBytes    = 8 // of a digest
)

// Tokens are the tokens that a server accepts. They do not change.
type Tokens struct {
	// By the beginning of the digest. It reveals nothing: what a client sends determines no digest that it can choose.
	known map[[indexBytes]byte][]issued
}

// issued is a token as a server stores it.
type issued struct {
	digest  [sha256.Size]byte
	subject string
	expires time.Time // zero: never
}

// New makes a token of a subject, which expires unless the time is zero, and the line of the server's file for it.
func New(random io.Reader, subject string, expires time.Time) (secret, line string, err error) {
	if message := SubjectFault(subject); message != "" {
		return "", "", fault.InvalidField("subject", "%s", message)
	}
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", "", fault.New(fault.Internal, "make a token: %w", err)
	}
	secret = Prefix + base64.RawURLEncoding.EncodeToString(b)
	line = subject + " " + digestPrefix + hexDigest(secret)
	if !expires.IsZero() {
		line += " " + expiresPrefix + expires.UTC().Format(time.RFC3339)
	}
	return secret, line, nil
}

func hexDigest(secret string) string {
	digest := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(digest[:])
}

// SubjectFault returns why a name cannot be a subject; "" if it can. Logs and lines of files contain subjects.
func SubjectFault(subject string) string {
	switch {
	case subject == "":
		return "the subject is empty"
	case len(subject) > maxSubject:
		return fmt.Sprintf("the subject is longer than %d bytes", maxSubject)
	case strings.HasPrefix(subject, "#"):
		return "the subject begins with #"
	case strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "the subject has a space or a character that is not ASCII"
	}
	return ""
}

// Parse parses a file of tokens. Each line has a subject, the token's digest as "sha256:" and hexadecimal digits, and
// optionally "expires=" and a time as in RFC 3339. Empty lines and lines that begin with # are ignored. A subject may have
// several tokens. All faults are reported together, by line.
func Parse(text []byte) (*Tokens, error) {
	t := &Tokens{known: map[[indexBytes]byte][]issued{}}
	if err := fault.Fields(fault.Lines(text, t.add)); err != nil {
		return nil, fault.As(err).WithRemedy("write the lines that penstock token new --subject NAME prints")
	}
	return t, nil
}

// add adds the token in the fields of a line, or returns their fault. No message repeats a field that could be a token.
func (t *Tokens) add(fields []string) string {
	const minFields, maxFields = 2, 3
	if len(fields) < minFields || len(fields) > maxFields {
		return "want a subject, sha256:DIGEST, and perhaps expires=TIME"
	}
	one := issued{subject: fields[0]}
	if message := SubjectFault(one.subject); message != "" {
		return message
	}
	text, ok := strings.CutPrefix(fields[1], digestPrefix)
	digest, err := hex.DecodeString(text)
	if !ok || err != nil || len(digest) != sha256.Size {
		return "the second field is not sha256: and 64 hexadecimal digits"
	}
	copy(one.digest[:], digest)
	if len(fields) == maxFields {
		text, ok := strings.CutPrefix(fields[2], expiresPrefix)
		if one.expires, err = time.Parse(time.RFC3339, text); !ok || err != nil {
			return "the third field is not expires= and a time such as 2027-01-31T00:00:00Z"
		}
	}
	at := [indexBytes]byte(one.digest[:])
	for _, other := range t.known[at] {
		if other.digest == one.digest {
			return "the token is that of an earlier line"
		}
	}
	t.known[at] = append(t.known[at], one)
	return ""
}

// Subject returns the subject of a token. It returns Unauthenticated for one that is unknown or has expired.
func (t *Tokens) Subject(secret string, now time.Time) (string, error) {
	digest := sha256.Sum256([]byte(secret))
	for _, one := range t.known[[indexBytes]byte(digest[:])] {
		if subtle.ConstantTimeCompare(one.digest[:], digest[:]) == 0 {
			continue
		}
		if !one.expires.IsZero() && !now.Before(one.expires) {
			return "", fault.New(fault.Unauthenticated, "the token expired at %s", one.expires.UTC().Format(time.RFC3339)).
				WithRemedy("get a new one from the operator of the server: penstock token new")
		}
		return one.subject, nil
	}
	return "", fault.New(fault.Unauthenticated, "the token is unknown to the server").
		WithRemedy("get one from the operator of the server: penstock token new")
}
