package commit

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// SummaryToken is the entry of a snapshot's summary with the token of the change.
const SummaryToken = "penstock.token"

// SummaryRows is the entry of a snapshot's summary with the digest of the rows that it added: see AddedRows.
const SummaryRows = "penstock.rows"

// SummaryCommand is the entry of a snapshot's summary with the command of the change, such as stage or compact.
const SummaryCommand = "penstock.command"

// SummaryBegan is the entry of a snapshot's summary with the branch that its change created. Taking the change back removes the branch.
const SummaryBegan = "penstock.branch"

// SummaryPromotion is the entry of a snapshot's summary with the promotion that replaced its files.
const SummaryPromotion = "penstock.promotion"

// tokenTime is the form of the time that begins a token, in UTC.
const tokenTime = "20060102T150405.000Z"

// maxToken is the largest size of a token, in bytes.
const maxToken = 200

// MaxAhead is how far the time of a token may be ahead of the clock of the committer.
const MaxAhead = time.Minute

// MaxBehind is how much older than its parent a snapshot of another writer may be, whose clock is behind: the reference
// implementation of the format refuses more.
const MaxBehind = time.Minute

// NewToken returns a token: the time, a dash and the name. An empty name is replaced by a
// random one. All tries of one change use the same token, those in other processes too.
//
// The snapshots of a branch store the tokens, and they expire. A token that is older than the oldest snapshot is refused. Other
// texts are tokens too, but have no time: once the snapshot has expired, a change with the token is made again.
func NewToken(now time.Time, name string) string {
	if name == "" {
		name = uuid.NewString()
	}
	return now.UTC().Format(tokenTime) + "-" + name
}

// TokenTime returns the time that a token begins with, or false.
func TokenTime(token string) (time.Time, bool) {
	if len(token) > len(tokenTime)+1 && token[len(tokenTime)] == '-' {
		at, err := time.Parse(tokenTime, token[:len(tokenTime)])
		return at, err == nil
	}
	return time.Time{}, false
}

// CheckToken returns Invalid for a text that is empty, too long or has characters that are not printed, and for a token of a time
// that is more than MaxAhead after now. Now is the committer's time, or zero to accept every time.
func CheckToken(token string, now time.Time) error {
	unprinted := func(c rune) bool { return !unicode.IsPrint(c) }
	if token == "" || len(token) > maxToken || !utf8.ValidString(token) || strings.ContainsFunc(token, unprinted) {
		return fault.InvalidField("token", "%q is not a token of a change", fault.Shorten(token, maxToken)).
			WithRemedy("write a text of at most %d bytes that names the change, such as history-2026-11-26", maxToken)
	}
	at, timed := TokenTime(token)
	if !timed || now.IsZero() || !at.After(now.Add(MaxAhead)) {
		return nil
	}
	return fault.InvalidField("token", "token %s is of a time that comes more than %s after the server's, which is %s", token, MaxAhead, now.UTC().Format(time.RFC3339)).
		WithRemedy("correct the clock of the client or of the server")
}
