package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// signing is a key of an issuer.
type signing struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func (k signing) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"}
}

func ec(t *testing.T, id string) signing {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return signing{id, jose.ES256, key}
}

// signed returns a token of claims.
func (k signing) signed(t *testing.T, claims map[string]any) string {
	t.Helper()
	return signedBy(t, jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, claims)
}

func signedBy(t *testing.T, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, nil)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// claims returns valid claims with others in their place; nil removes one.
func claims(changed map[string]any) map[string]any {
	out := map[string]any{
		"iss": "https://issuer.example.com", "aud": []string{"other", "penstock"}, "sub": "system:serviceaccount:ml:trainer",
		"exp": noon.Add(time.Hour).Unix(), "nbf": noon.Unix(), "iat": noon.Unix(),
	}
	for name, value := range changed {
		if out[name] = value; value == nil {
			delete(out, name)
		}
	}
	return out
}

// keySet returns a JWKS.
func keySet(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	return text
}

func of(t *testing.T, keys ...jose.JSONWebKey) *Issuer {
	t.Helper()
	i := New("https://issuer.example.com", "penstock", func() time.Time { return noon }, nil)
	require.NoError(t, i.SetKeys(keySet(t, keys...), noon))
	return i
}

// spec: access-9
func TestTokensOfTheIssuerAreAccepted(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for _, key := range []signing{ec(t, "a"), {"b", jose.RS256, large}, {"c", jose.PS256, large}, {"d", jose.EdDSA, edwards}} {
		other := ec(t, "other").public()
		who, err := of(t, other, key.public()).Caller(key.signed(t, claims(nil)))
		require.NoError(t, err, key.algorithm)
		require.Equal(t, "system:serviceaccount:ml:trainer", who.Subject)
	}
	alone := ec(t, "")
	_, err = of(t, alone.public()).Caller(alone.signed(t, claims(nil)))
	require.NoError(t, err, "the only key needs no name")
}

// spec: access-9, access-31
func TestTokensWithOtherClaimsAreRefused(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	for name, c := range map[string]struct {
		changed map[string]any
		says    string
	}{
		"another issuer":     {map[string]any{"iss": "https://issuer.example.org"}, "another issuer"},
		"no issuer":          {map[string]any{"iss": nil}, "another issuer"},
		"another audience":   {map[string]any{"aud": "storage"}, "another audience"},
		"no audience":        {map[string]any{"aud": nil}, "another audience"},
		"no expiry":          {map[string]any{"exp": nil}, "does not expire"},
		"expired":            {map[string]any{"exp": noon.Add(-skew - time.Second).Unix()}, "expired at 2026-10-01T11:58:59Z"},
		"not for long":       {map[string]any{"nbf": noon.Add(time.Hour).Unix()}, "not valid yet: it is valid from 2026-10-01T13:00:00Z, which is 1h0m0s after the time of this server"},
		"no subject":         {map[string]any{"sub": nil}, "subject"},
		"a broken subject":   {map[string]any{"sub": "two\nlines"}, "subject"},
		"a subject too long": {map[string]any{"sub": strings.Repeat("s", 1000)}, "subject"},
		"a number":           {map[string]any{"sub": 7}, "signature"},
	} {
		_, err := i.Caller(key.signed(t, claims(c.changed)))
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
	for _, early := range []map[string]any{{"nbf": noon.Add(skew + time.Second).Unix()}, {"iat": noon.Add(skew + time.Second).Unix()}} {
		_, err := i.Caller(key.signed(t, claims(early)))
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "a client asks another server, or again")
		require.Equal(t, time.Second, fault.As(err).RetryAfter)
		require.ErrorContains(t, err, "it is valid from 2026-10-01T12:01:01Z, which is 1m1s after the time of this server, 2026-10-01T12:00:00Z")
	}
	for _, within := range []map[string]any{{"exp": noon.Add(-skew).Unix()}, {"nbf": noon.Add(skew).Unix()}, {"aud": "penstock"}, {"nbf": nil, "iat": nil}} {
		_, err := i.Caller(key.signed(t, claims(within)))
		require.NoError(t, err, within)
	}
}

// spec: access-9
func TestOtherKeysAndAlgorithmsAreRefused(t *testing.T) {
	key, other := ec(t, "a"), ec(t, "a")
	i := of(t, key.public())
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(key.private.Public())
	require.NoError(t, err)
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"a"}`)) + "." + strings.Split(key.signed(t, claims(nil)), ".")[1] + "."
	embedded := signedBy(t, jose.SigningKey{Algorithm: jose.ES256, Key: other.private}, claims(nil))
	for name, token := range map[string]string{
		"another key of the id":     other.signed(t, claims(nil)),
		"another id":                signing{"b", key.algorithm, key.private}.signed(t, claims(nil)),
		"none":                      none,
		"the public key as secret":  signedBy(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: der, KeyID: "a"}}, claims(nil)),
		"no id, and not the key":    embedded,
		"no token":                  "",
		"a static token":            "pst_" + strings.Repeat("A", 43),
		"two signatures":            key.signed(t, claims(nil)) + "." + "AAAA",
		"encrypted, by its form":    "a.b.c.d.e",
		"an RSA key that is small":  signing{"a", jose.RS256, small}.signed(t, claims(nil)),
		"a line break in its parts": key.signed(t, claims(nil)) + "\n",
	} {
		_, err := i.Caller(token)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), name)
	}
	// A key is for its algorithm.
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, err = of(t, signing{"a", jose.RS256, large}.public()).Caller(signing{"a", jose.PS256, large}.signed(t, claims(nil)))
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
}

// spec: access-10, access-27
func TestKeysRotate(t *testing.T) {
	first, second := ec(t, "1"), ec(t, "2")
	f := newFetched(t)
	f.answers(first, fault.Unavailable) // no keys yet
	f.fetch(first)
	f.accepts(first)
	require.Equal(t, 1, f.wanted)
	f.answers(second, fault.Unavailable)
	require.Equal(t, 2, f.wanted)
	f.fetch(first, second)
	f.accepts(first)
	f.accepts(second)
	require.Equal(t, 2, f.wanted)
}

// TestWithdrawnKeysAreUnauthenticated: a token is refused once a fetch that started after it arrived has not brought its key.
// Failed fetches and those that started earlier do not count.
//
// spec: access-27
func TestWithdrawnKeysAreUnauthenticated(t *testing.T) {
	first, second, third := ec(t, "1"), ec(t, "2"), ec(t, "3")
	f := newFetched(t)
	f.fetch(first, second)
	f.fetch(second)
	f.answers(first, fault.Unavailable)
	require.Error(t, f.issuer.SetKeys([]byte("{}"), f.now.Add(time.Second)))
	f.answers(first, fault.Unavailable)
	require.NoError(t, f.issuer.SetKeys(keySet(t, second.public()), noon), "a fetch that started before the token arrived")
	f.answers(first, fault.Unavailable)
	f.fetch(second)
	f.answers(first, fault.Unauthenticated)
	f.answers(first, fault.Unauthenticated)
	f.answers(third, fault.Unavailable) // which has arrived after the fetch
	f.fetch(second, third)
	f.accepts(third)
	f.fetch(first)
	f.accepts(first) // the issuer has published its key late
}

// TestInventedKeysDoNotLockOutOthers: neither a token that names the next key of the issuer before it exists nor a flood of tokens
// has a true token refused, and no number of tokens takes memory without bound.
//
// spec: access-27
func TestInventedKeysDoNotLockOutOthers(t *testing.T) {
	first, second, invented := ec(t, "1"), ec(t, "2"), ec(t, "2")
	f := newFetched(t)
	f.fetch(first)
	f.answers(invented, fault.Unavailable)
	f.fetch(first)
	f.answers(invented, fault.Unauthenticated)
	f.answers(second, fault.Unavailable)
	for n := range 2 * maxWaiting {
		_, err := f.issuer.Caller(signing{fmt.Sprint("invented ", n), jose.ES256, invented.private}.signed(t, claims(nil)))
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	}
	require.Len(t, f.issuer.waiting.arrived, maxWaiting)
	f.fetch(first, second)
	f.accepts(second)
	_, err := f.issuer.Caller(invented.signed(t, claims(nil)))
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
}

// TestHopelessTokensAreRefusedAtOnce: a token that no fetch can make valid is refused without one.
//
// spec: access-27
func TestHopelessTokensAreRefusedAtOnce(t *testing.T) {
	unknown, nameless := ec(t, "unknown"), ec(t, "")
	f := newFetched(t)
	f.fetch(ec(t, "1"), ec(t, "2"))
	for says, token := range map[string]string{
		"names no key":       nameless.signed(t, claims(nil)),
		"the token expired":  unknown.signed(t, claims(map[string]any{"exp": noon.Add(-time.Hour).Unix()})),
		"another issuer":     unknown.signed(t, claims(map[string]any{"iss": "https://issuer.example.org"})),
		"another audience":   unknown.signed(t, claims(map[string]any{"aud": "storage"})),
		"subject is empty":   unknown.signed(t, claims(map[string]any{"sub": nil})),
		"not a JSON object":  unknown.signed(t, claims(map[string]any{"sub": 7})),
		"it does not expire": unknown.signed(t, claims(map[string]any{"exp": nil})),
		"is not valid yet":   unknown.signed(t, claims(map[string]any{"nbf": noon.Add(time.Hour).Unix()})),
	} {
		_, err := f.issuer.Caller(token)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), says)
		require.ErrorContains(t, err, says)
	}
	require.Zero(t, f.wanted)
	require.Empty(t, f.issuer.waiting.arrived)
}

// fetched is an issuer whose keys are fetched, and its clock.
type fetched struct {
	t      *testing.T
	issuer *Issuer
	now    time.Time
	wanted int // fetches
	tokens map[crypto.Signer]string
}

func newFetched(t *testing.T) *fetched {
	t.Helper()
	f := &fetched{t: t, now: noon, tokens: map[crypto.Signer]string{}}
	f.issuer = New("https://issuer.example.com", "penstock", func() time.Time { return f.now }, func() { f.wanted++ })
	return f
}

// fetch fetches the keys, later than anything before.
func (f *fetched) fetch(keys ...signing) {
	f.t.Helper()
	f.now = f.now.Add(time.Second)
	set := make([]jose.JSONWebKey, len(keys))
	for i, key := range keys {
		set[i] = key.public()
	}
	require.NoError(f.t, f.issuer.SetKeys(keySet(f.t, set...), f.now))
}

// caller sends the token of a key, always the same one.
func (f *fetched) caller(key signing) error {
	f.t.Helper()
	f.now = f.now.Add(time.Second)
	if f.tokens[key.private] == "" {
		f.tokens[key.private] = key.signed(f.t, claims(nil))
	}
	_, err := f.issuer.Caller(f.tokens[key.private])
	return err
}

func (f *fetched) accepts(key signing) {
	f.t.Helper()
	require.NoError(f.t, f.caller(key))
}

func (f *fetched) answers(key signing, kind fault.Kind) {
	f.t.Helper()
	err := f.caller(key)
	require.Equal(f.t, kind, fault.KindOf(err), "%v", err)
	require.Equal(f.t, kind == fault.Unavailable, fault.As(err).RetryAfter != 0)
	require.NotEmpty(f.t, fault.As(err).Remedy)
}

func TestSetsWithoutAKeyForSignaturesAreRefused(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	require.NoError(t, err)
	encrypts := key.public()
	encrypts.Use = "enc"
	for name, text := range map[string][]byte{
		"empty": nil, "not a set": []byte(`[]`), "no keys": []byte(`{"keys": []}`), "of an unknown type": []byte(`{"keys": [{"kty": "new"}]}`),
		"a secret":  keySet(t, jose.JSONWebKey{Key: []byte("secret"), KeyID: "a"}),
		"private":   keySet(t, jose.JSONWebKey{Key: key.private, KeyID: "a"}),
		"small":     keySet(t, signing{"a", jose.RS256, small}.public()),
		"for other": keySet(t, encrypts),
	} {
		require.Equal(t, fault.Invalid, fault.KindOf(i.SetKeys(text, noon)), name)
	}
	_, err = i.Caller(key.signed(t, claims(nil)))
	require.NoError(t, err, "the keys stay")
	mixed := []byte(strings.Replace(string(keySet(t, key.public())), `"keys":[`, `"keys":[{"kty": "new"},`, 1))
	require.NoError(t, i.SetKeys(mixed, noon), "keys of other types are left out")
}

// editedTokens is the number of edited tokens that must be refused.
const editedTokens = 10000

// spec: access-9
func TestNoEditedJWTIsAccepted(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	token := key.signed(t, claims(nil))
	_, err := i.Caller(token)
	require.NoError(t, err)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=\n "
	for n := range editedTokens {
		edited := []byte(token)
		at := random.IntN(len(edited))
		if n%100 == 0 {
			at = len(edited) - 1 // whose last bits decoding ignores
		}
		switch c := alphabet[random.IntN(len(alphabet))]; random.IntN(3) {
		case 0:
			edited[at] = c
		case 1:
			edited = append(edited[:at], edited[at+1:]...)
		case 2:
			edited = append(edited[:at], append([]byte{c}, edited[at:]...)...)
		}
		if string(edited) == token {
			continue
		}
		_, err := i.Caller(string(edited))
		require.Error(t, err, "%s", edited)
	}
}

func BenchmarkSubject(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.RS256} {
		var private crypto.Signer
		var err error
		if algorithm == jose.ES256 {
			private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		} else {
			private, err = rsa.GenerateKey(rand.Reader, 2048)
		}
		require.NoError(b, err)
		key := signing{"a", algorithm, private}
		i := New("https://issuer.example.com", "penstock", func() time.Time { return noon }, nil)
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.public()}})
		require.NoError(b, err)
		require.NoError(b, i.SetKeys(text, noon))
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: private, KeyID: "a"}}, nil)
		require.NoError(b, err)
		token, err := jwt.Signed(signer).Claims(claims(nil)).Serialize()
		require.NoError(b, err)
		b.Run(string(algorithm), func(b *testing.B) {
			for b.Loop() {
				_, err := i.Caller(token)
				require.NoError(b, err)
			}
		})
	}
}

// TestOldKeysCheckNothing: keys that were set too long ago accept no token, not even one that they signed, until they are set
// again.
//
// spec: access-25
func TestOldKeysCheckNothing(t *testing.T) {
	now, wanted := noon, 0
	key := ec(t, "a")
	i := New("https://issuer.example.com", "penstock", func() time.Time { return now }, func() { wanted++ })
	i.LimitAge(time.Hour)
	require.NoError(t, i.SetKeys(keySet(t, key.public()), now))
	token := key.signed(t, claims(map[string]any{"exp": noon.Add(100 * time.Hour).Unix()}))
	check := func(kind fault.Kind) {
		_, err := i.Caller(token)
		require.Equal(t, kind, fault.KindOf(err), "%v", err)
		require.Contains(t, err.Error(), "jwt_keys_max_age")
		require.Positive(t, fault.As(err).RetryAfter)
	}
	now = noon.Add(time.Hour)
	_, err := i.Caller(token)
	require.NoError(t, err)
	require.Zero(t, wanted)
	now = now.Add(time.Nanosecond)
	check(fault.Unavailable)
	require.Equal(t, 1, wanted)
	require.Error(t, i.SetKeys([]byte("{}"), now), "a failed fetch makes them no younger")
	check(fault.Unavailable)
	require.NoError(t, i.SetKeys(keySet(t, key.public()), now))
	_, err = i.Caller(token)
	require.NoError(t, err)

	i.LimitAge(0)
	now = noon.Add(99 * time.Hour)
	_, err = i.Caller(token)
	require.NoError(t, err, "there is no limit")
}
