package commit

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
)

// SummaryToken is the name of the entry in a snapshot's summary that has the token of the change.
const SummaryToken = "penstock.token"

// SummaryRows is the name of the entry that has the digest of the added rows: see AddedRows.
const SummaryRows = "penstock.rows"

// SummaryCommand is the name of the entry that has the command that made the change, such as stage
// or compact.
const SummaryCommand = "penstock.command"

// SummaryBegan is the name of the entry that has the branch that the change created. To undo such a
// change, the branch is removed.
const SummaryBegan = "penstock.branch"

// SummaryCreated is the name of the entry that a snapshot has if its change created the table. To undo
// such a change, the table is dropped.
const SummaryCreated = "penstock.created"

// SummaryPromotion is the name of the entry that has the id of the promotion that made the snapshot
// by replacing files.
const SummaryPromotion = "penstock.promotion"

// tokenTime is the format of the time, in UTC, at the beginning of a token.
const tokenTime = "20060102T150405.000Z"

// maxToken is the largest size of a token, in bytes.
const maxToken = 200

// MaxAhead is the longest time by which the time of a token may be ahead of the committer's clock.
const MaxAhead = time.Minute

// MaxBehind is the longest time by which the time of a snapshot may be before the time of its
// parent. This can happen if the clock of another writer is slow. The reference implementation of
// the format refuses a larger difference.
const MaxBehind = time.Minute

// NewToken returns a token: the time, a dash and the name. An empty name is replaced with a random
// one. All attempts to make one change use the same token, even in different processes.
//
// Tokens are stored in the snapshots of a branch, and snapshots expire. Therefore a token whose
// time is before the oldest snapshot is refused. Any other text can be a token too, but it has no
// time: once its snapshot has expired, a call with the same token makes the change again.
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

// CheckToken returns Invalid for a text that is empty, that is too long, or that has unprintable
// characters, and for a token whose time is more than MaxAhead after now. Now is the committer's
// current time. If it is zero, the token may have any time.
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
