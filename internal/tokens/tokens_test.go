package tokens

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func parsed(t *testing.T, lines ...string) *Tokens {
	t.Helper()
	out, err := Parse([]byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return out
}

func made(t *testing.T, subject string, expires time.Time) (secret, line string) {
	t.Helper()
	secret, line, err := New(rand.Reader, subject, expires)
	require.NoError(t, err)
	require.NotContains(t, line, secret[len(Prefix):])
	return secret, line
}

// spec: access-7
func TestTokenNamesItsSubjectUntilItExpires(t *testing.T) {
	first, one := made(t, "trainers", time.Time{})
	second, two := made(t, "trainers", noon)
	third, _ := made(t, "others", time.Time{})
	set := parsed(t, "# tokens", "", one, "  "+two+"  ")
	for _, secret := range []string{first, second} {
		subject, err := set.Subject(secret, noon.Add(-time.Second))
		require.NoError(t, err)
		require.Equal(t, "trainers", subject)
	}
	_, err := set.Subject(second, noon)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
	require.ErrorContains(t, err, "the token expired at 2026-10-01T12:00:00Z")
	_, err = set.Subject(third, noon)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
	_, err = parsed(t).Subject(first, noon)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
}

// editedTokens is the number of edited tokens that must be refused.
const editedTokens = 10000

// spec: access-7
func TestNoEditedTokenIsAccepted(t *testing.T) {
	secret, line := made(t, "trainers", time.Time{})
	set := parsed(t, line)
	_, err := set.Subject(secret, noon)
	require.NoError(t, err)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for range editedTokens {
		edited := []byte(secret)
		switch at := random.IntN(len(edited)); random.IntN(4) {
		case 0:
			edited[at] ^= 1 << random.IntN(8)
		case 1:
			edited = append(edited[:at], edited[at+1:]...)
		case 2:
			edited = append(edited[:at], append([]byte{byte(random.IntN(256))}, edited[at:]...)...)
		case 3:
			edited = edited[:at]
		}
		if string(edited) == secret {
			continue
		}
		_, err := set.Subject(string(edited), noon)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), "%q", edited)
	}
	// The same bytes in another form, and the digest instead of the token.
	raw, err := base64.RawURLEncoding.DecodeString(secret[len(Prefix):])
	require.NoError(t, err)
	for _, other := range []string{Prefix + base64.URLEncoding.EncodeToString(raw), string(raw), " " + secret, secret + "\n", strings.Fields(line)[1], ""} {
		_, err := set.Subject(other, noon)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), "%q", other)
	}
}

func TestFilesWithFaultsAreRefusedByLine(t *testing.T) {
	_, line := made(t, "trainers", time.Time{})
	digest := strings.Fields(line)[1]
	_, err := Parse([]byte(strings.Join([]string{
		line, "trainers", "trainers pst_secret", "trainers " + digest[:20], line, line + " forever", line + " 2026-10-01T12:00:00Z",
		"trainérs " + digest, strings.Repeat("s", 129) + " " + digest, line + " expires=2026-10-01T12:00:00Z more",
	}, "\n")))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	var lines []string
	for _, f := range fault.As(err).Faults {
		lines = append(lines, f.Field)
		require.NotContains(t, f.Message, "secret")
	}
	require.Equal(t, []string{"line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8", "line 9", "line 10"}, lines)
	_, err = Parse(bytes.Repeat([]byte("x"), 1<<17))
	require.Error(t, err)
}

func TestSubjectsThatLinesCannotHoldAreRefused(t *testing.T) {
	for _, subject := range []string{"", "two words", "line\nbreak", "#comment", "é", strings.Repeat("s", 129)} {
		_, _, err := New(rand.Reader, subject, time.Time{})
		require.Equal(t, fault.Invalid, fault.KindOf(err), subject)
	}
	_, _, err := New(strings.NewReader("short"), "trainers", time.Time{})
	require.Error(t, err)
}

// TestWholeDigestsAreCompared: the digest of a token may begin as that of another.
func TestWholeDigestsAreCompared(t *testing.T) {
	secret, line := made(t, "trainers", time.Time{})
	set := parsed(t, line)
	for at := range set.known {
		set.known[at][0].digest[31] ^= 1
	}
	_, err := set.Subject(secret, noon)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
}

func BenchmarkSubject(b *testing.B) {
	var lines []string
	secret := ""
	for range 10000 {
		one, line, err := New(rand.Reader, "trainers", time.Time{})
		require.NoError(b, err)
		secret, lines = one, append(lines, line)
	}
	set, err := Parse([]byte(strings.Join(lines, "\n")))
	require.NoError(b, err)
	for b.Loop() {
		_, err := set.Subject(secret, noon)
		require.NoError(b, err)
	}
}
