package commit

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// SummaryToken is the entry of a snapshot's summary with the token of the change.
const SummaryToken = "penstock.token"

// SummaryCommand is the entry of a snapshot's summary with the command of the change, such as stage or compact.
const SummaryCommand = "penstock.command"

// SummaryPromotion is the entry of a snapshot's summary with the promotion that replaced its files.
const SummaryPromotion = "penstock.promotion"

// tokenTime is the form of the time that begins a token, in UTC.
const tokenTime = "20060102T150405.000Z"

// maxTokenName bounds the name in a token.
const maxTokenName = 128

// MaxAhead is how far the time of a token may be ahead of the clock of the committer.
const MaxAhead = time.Minute

// MaxBehind is how much older than its parent a snapshot of another writer may be, whose clock is behind: the reference
// implementation of the format refuses more.
const MaxBehind = time.Minute

// NewToken returns a token: the time, a dash and the name. An empty name is replaced by a
// random one. All tries of one change use the same token, those in other processes too.
//
// The time bounds how long a token is remembered. The snapshots of a branch are the memory,
// and they expire: a token that is older than the oldest of them is refused.
func NewToken(now time.Time, name string) string {
	if name == "" {
		name = uuid.NewString()
	}
	return now.UTC().Format(tokenTime) + "-" + name
}

// TokenTime returns the time of a token, or Invalid for a text that is not a token.
func TokenTime(token string) (time.Time, error) {
	if len(token) > len(tokenTime)+1 && token[len(tokenTime)] == '-' && isTokenName(token[len(tokenTime)+1:]) {
		if at, err := time.Parse(tokenTime, token[:len(tokenTime)]); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fault.InvalidField("token", "%q is not a token of a change", fault.Shorten(token, maxTokenName)).
		WithRemedy("write the time when the change began, in UTC, a dash, and a name of at most %d letters, digits and the characters . _ -, such as %s",
			maxTokenName, NewToken(time.Date(2026, time.March, 1, 12, 30, 0, 0, time.UTC), "job-7"))
}

// CheckToken returns Invalid for a text that is not a token, and for a token of a time that is more than MaxAhead after now.
// Now is the committer's time, or zero to accept every time.
func CheckToken(token string, now time.Time) error {
	at, err := TokenTime(token)
	if err != nil || now.IsZero() || !at.After(now.Add(MaxAhead)) {
		return err
	}
	return fault.InvalidField("token", "token %s is of a time that comes more than %s after the server's, which is %s", token, MaxAhead, now.UTC().Format(time.RFC3339)).
		WithRemedy("correct the clock of the client or of the server")
}

func isTokenName(name string) bool {
	return len(name) <= maxTokenName && strings.IndexFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	}) < 0
}
